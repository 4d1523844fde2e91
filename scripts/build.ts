/**
 * Bundles Keyferry into one CommonJS file: `dist/keyferry.cjs`. `dist/bundled-packages.json` lists the npm packages in
 * the bundle. The page of `keyferry ui` with its server is a file of its own, `dist/keyferry-ui.cjs`, which only that
 * command loads.
 *
 * The bundle is CommonJS because an ESM import of `node:http` reads all exports of the module, and Node then loads its
 * built-in undici. An ESM bundle of the same program takes 6 MiB more private memory.
 */
import { build, type BuildOptions } from 'esbuild';
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

const PAGE_FILE = 'keyferry-ui.cjs';
const COMMON = { bundle: true, minify: true, legalComments: 'none', logLevel: 'warning' } as const;
const ON_NODE = { ...COMMON, platform: 'node', target: 'node24', format: 'cjs' } as const satisfies BuildOptions;

const { metafile } = await build({
  ...ON_NODE,
  entryPoints: ['src/cli/main.ts'],
  outfile: 'dist/keyferry.cjs',
  metafile: true,
  plugins: [
    {
      name: 'page-file',
      setup: (plugin) => {
        plugin.onResolve({ filter: /\/ui\/server\// }, () => ({ path: `./${PAGE_FILE}`, external: true }));
      },
    },
  ],
  define: {
    KEYFERRY_VERSION: JSON.stringify(manifest.version),
    KEYFERRY_COMMIT: JSON.stringify(sourceCommit() ?? 'unknown'),
    KEYFERRY_TESTED: JSON.stringify(tested()),
    KEYFERRY_CRDS: JSON.stringify(readCrds()),
  },
});

/** The page's script or style as a text. */
async function pagePart(file: string): Promise<string> {
  const options = { ...COMMON, platform: 'browser', target: 'chrome120', format: 'iife', write: false } as const;
  const { outputFiles } = await build({ ...options, entryPoints: [file] });
  // A file of a report has the script inside. No text in it may end the element.
  return outputFiles.map(({ text }) => text.trim().replaceAll('</', String.raw`<\/`)).join('');
}

const page = { script: await pagePart('ui/page/main.ts'), style: await pagePart('ui/page/style.css') };
await build({
  ...ON_NODE,
  entryPoints: ['ui/server/show-page.ts'],
  outfile: `dist/${PAGE_FILE}`,
  define: { KEYFERRY_PAGE: JSON.stringify(page) },
});

// For the SBOM of the image, which lists these packages.
writeFileSync('dist/bundled-packages.json', `${JSON.stringify(bundledPackages(metafile))}\n`);
