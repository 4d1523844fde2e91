/**
 * Lists the npm packages whose code is in the bundle, for the SBOM. Without this list, scanners could not find the
 * packages, because they look for a folder `node_modules`.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import type { Metafile } from 'esbuild';

export interface BundledPackage {
  readonly name: string;
  readonly version: string;
}

/** @param metafile - esbuild's description of a build, with paths relative to the root of the checkout */
export function bundledPackages(metafile: Metafile): BundledPackage[] {
  const used = Object.values(metafile.outputs)
    .flatMap(({ inputs }) => Object.entries(inputs))
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0);
  const folders = used.flatMap(([file]) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []);
  return [...new Set(folders)].toSorted().map((folder) => {
    const content = readFileSync(path.join(import.meta.dirname, '..', folder, 'package.json'), 'utf8');
    const { name, version } = JSON.parse(content) as BundledPackage;
    return { name, version };
  });
}
