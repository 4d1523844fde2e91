/**
 * `npm run release -- --tag v1.2.3 --image ghcr.io/keyferry/keyferry --maintainer 'NAME <ADDRESS>' --package FILE.tgz`:
 * writes the chart, the manifests and the manifest for krew of a release into `dist/release`. In them, the default image is
 * the image of the release. FILE.tgz is what `npm pack` made. The workflow `release.yml` runs this script.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';

import { writeReleaseFiles } from './release/files.ts';

const option = { type: 'string' } as const;
const { values } = parseArgs({ options: { tag: option, image: option, maintainer: option, package: option } });
const { tag, image, maintainer, package: npmPackage } = values;
if (tag === undefined || image === undefined || maintainer === undefined || npmPackage === undefined) {
  throw new Error(
    "usage: npm run release -- --tag v1.2.3 --image REGISTRY/NAME --maintainer 'NAME <ADDRESS>' --package FILE.tgz",
  );
}
writeReleaseFiles({ tag, image, maintainer, npmPackage }, path.join(import.meta.dirname, '../dist/release'));
