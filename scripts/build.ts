/**
 * Bundles Keyferry into one CommonJS file: `dist/keyferry.cjs`. `dist/bundled-packages.json` lists the npm packages in
 * the bundle.
 *
 * The bundle is CommonJS because an ESM import of `node:http` reads all exports of the module, and Node then loads its
 * built-in undici. An ESM bundle of the same program takes 6 MiB more private memory.
 */
import { build } from 'esbuild';
import { readFileSync, writeFileSync } from 'node:fs';

import type { TestedVersions } from '../src/config/version.ts';
import { bundledPackages } from './bundled-packages.ts';
import { sourceCommit } from './commit.ts';
import { readCrds } from './crd/read-crds.ts';

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string };

/** The results of `npm run test:matrix`: the servers that Keyferry was tested with, for `keyferry version`. */
function tested(): readonly TestedVersions[] {
  const results = JSON.parse(
    readFileSync(new URL('matrix/results.json', import.meta.url), 'utf8'),
  ) as readonly TestedVersions[];
  return results.map(({ kubernetes, vault, externalSecrets, date }) => ({ kubernetes, vault, externalSecrets, date }));
}

const { metafile } = await build({
  entryPoints: ['src/cli/main.ts'],
  outfile: 'dist/keyferry.cjs',
  bundle: true,
  minify: true,
  platform: 'node',
  target: 'node24',
  format: 'cjs',
  sourcemap: false,
  legalComments: 'none',
  metafile: true,
  define: {
    KEYFERRY_VERSION: JSON.stringify(manifest.version),
    KEYFERRY_COMMIT: JSON.stringify(sourceCommit() ?? 'unknown'),
    KEYFERRY_TESTED: JSON.stringify(tested()),
    KEYFERRY_CRDS: JSON.stringify(readCrds()),
  },
  logLevel: 'warning',
});

// For the SBOM of the image, which lists these packages.
writeFileSync('dist/bundled-packages.json', `${JSON.stringify(bundledPackages(metafile))}\n`);
