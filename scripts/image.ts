/**
 * `npm run image [-- --arch amd64]`: makes the container image without a container engine. It needs Linux with `apt-get`, `dpkg-deb` and
 * GNU tar, and Debian's archive the first time.
 *
 * Writes `dist/image/oci`, an OCI image layout, and for each architecture `dist/image/keyferry-VERSION-ARCH.tar` for `docker load`.
 */
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { buildImage } from './image/build-image.ts';
import type { Architecture } from './image/inputs.ts';

const ROOT = path.join(import.meta.dirname, '..');
const { values } = parseArgs({ options: { arch: { type: 'string', multiple: true, default: ['amd64', 'arm64'] } } });
const unknown = values.arch.find((name) => name !== 'amd64' && name !== 'arm64');
if (unknown !== undefined) throw new Error(`--arch ${unknown}: must be amd64 or arm64`);

const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string };
const folder = path.join(ROOT, 'dist/image');
for (const file of buildImage(values.arch as Architecture[], path.join(ROOT, 'dist/keyferry.cjs'), folder, version)) {
  console.log(`${path.relative(ROOT, file)}  ${(statSync(file).size / 1e6).toFixed(1)} MB`);
}
