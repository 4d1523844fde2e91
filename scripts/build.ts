/**
 * Bundles Keyferry into one CommonJS file: `dist/keyferry.cjs`.
 *
 * It is CommonJS because an ESM import of `node:http` reads all of its exports, and Node then loads its built-in undici. An ESM
 * bundle of the same program takes 6 MiB more private memory.
 */
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { readCrds } from './crd/read-crds.ts';

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string };

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** @returns `undefined` if Git or the checkout is missing */
function git(...args: readonly string[]): string | undefined {
  const { status, stdout } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

/** `keyferry version` prints it. `KEYFERRY_COMMIT` names it where the checkout is missing. */
function commit(): string {
  const given = process.env['KEYFERRY_COMMIT'] ?? '';
  if (given !== '') return given;
  // Without a .git of its own, the folder may be inside another project.
  const head = existsSync(path.join(ROOT, '.git')) ? git('rev-parse', 'HEAD') : undefined;
  if (head === undefined) return 'unknown';
  return git('status', '--porcelain', '--untracked-files=no') === '' ? head : `${head}-dirty`;
}

await build({
  entryPoints: ['src/cli/main.ts'],
  outfile: 'dist/keyferry.cjs',
  bundle: true,
  minify: true,
  platform: 'node',
  target: 'node24',
  format: 'cjs',
  sourcemap: false,
  legalComments: 'none',
  define: {
    KEYFERRY_VERSION: JSON.stringify(manifest.version),
    KEYFERRY_COMMIT: JSON.stringify(commit()),
    KEYFERRY_CRDS: JSON.stringify(readCrds()),
  },
  logLevel: 'warning',
});
