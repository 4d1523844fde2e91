/**
 * Bundles Keyferry into one CommonJS file: `dist/keyferry.cjs`.
 *
 * CommonJS on purpose: an ESM import of `node:http` reads every export of it, which makes Node load its
 * built-in undici; the same program as an ESM bundle holds 6 MiB more private memory.
 */
import { build } from 'esbuild';
import { readFileSync } from 'node:fs';

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string };

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
  define: { KEYFERRY_VERSION: JSON.stringify(manifest.version) },
  logLevel: 'warning',
});
