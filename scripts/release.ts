/**
 * `npm run release -- --tag v1.2.3 --image ghcr.io/keyferry/keyferry --maintainer 'NAME <ADDRESS>'`: writes the chart and
 * the manifests of a release into `dist/release`. In them, the default image is the image of the release. The workflow `release.yml` runs this
 * script.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';

import { writeReleaseFiles } from './release/files.ts';

const option = { type: 'string' } as const;
const { values } = parseArgs({ options: { tag: option, image: option, maintainer: option } });
const { tag, image, maintainer } = values;
if (tag === undefined || image === undefined || maintainer === undefined) {
  throw new Error("usage: npm run release -- --tag v1.2.3 --image REGISTRY/NAME --maintainer 'NAME <ADDRESS>'");
}
writeReleaseFiles({ tag, image, maintainer }, path.join(import.meta.dirname, '../dist/release'));
