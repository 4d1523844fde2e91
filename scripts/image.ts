/**
 * `npm run image [-- --arch amd64]`: makes the container image without a container engine. It needs Linux with
 * `apt-get`, `dpkg-deb`, GNU tar and Debian's keyring. For the first image, it downloads packages from Debian's archive
 * and the npm registry.
 *
 * Writes `dist/image/oci`, an OCI image layout. For each architecture it also writes
 * `dist/image/keyferry-VERSION-ARCH.tar` for `docker load`, and the SBOM `dist/image/keyferry-VERSION-ARCH.cdx.json`.
 *
 * `npm run image -- --update-pins` pins the newest Debian packages and makes no image.
 */
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { sourceCommit } from './commit.ts';
import { buildImage } from './image/build-image.ts';
import type { Architecture } from './image/inputs.ts';
import { updatePins } from './image/update-pins.ts';

const ROOT = path.join(import.meta.dirname, '..');
const { values } = parseArgs({
  options: {
    arch: { type: 'string', multiple: true, default: ['amd64', 'arm64'] },
    'update-pins': { type: 'boolean', default: false },
  },
});
const unknown = values.arch.find((name) => name !== 'amd64' && name !== 'arm64');
if (unknown !== undefined) throw new Error(`--arch ${unknown}: must be amd64 or arm64`);

if (values['update-pins']) {
  const changes = updatePins();
  console.log(changes.length > 0 ? changes.join('\n') : 'The pinned packages are the newest.');
} else {
  const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string };
  const source = { version, revision: sourceCommit() };
  const folder = path.join(ROOT, 'dist/image');
  for (const file of buildImage(values.arch as Architecture[], path.join(ROOT, 'dist/keyferry.cjs'), folder, source)) {
    console.log(`${path.relative(ROOT, file)}  ${(statSync(file).size / 1e6).toFixed(1)} MB`);
  }
  console.log(`The image is keyferry:${version}. Once it is in your registry, or loaded on the nodes, for the chart:`);
  console.log(
    `  --set image.repository=YOUR-REGISTRY/keyferry --set image.tag=${version}    or  --set image.repository=keyferry`,
  );
}
