/**
 * `npm run release -- --tag v1.2.3 --image ghcr.io/keyferry/keyferry`: writes the chart and the manifests of a release
 * into `dist/release`. In them, the default image is the image of the release. The workflow `release.yml` runs this
 * script.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';

import { writeReleaseFiles } from './release/files.ts';

const { values } = parseArgs({ options: { tag: { type: 'string' }, image: { type: 'string' } } });
if (values.tag === undefined || values.image === undefined) {
  throw new Error('usage: npm run release -- --tag v1.2.3 --image REGISTRY/NAME');
}
writeReleaseFiles({ tag: values.tag, image: values.image }, path.join(import.meta.dirname, '../dist/release'));
