/** Builds the bundle for scenario tests, if it is older than its sources. */
import { execFile } from 'node:child_process';
import { globSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

import { withLock } from '../servers/build-lock.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');
const BUNDLE = path.join(ROOT, 'dist', 'keyferry.cjs');

let bundle: Promise<string> | undefined;

/**
 * The path of a bundle that is up to date. If test files run in parallel, only one of them builds it. Each file
 * compares the bundle with its sources one time.
 */
export function ensureBundle(): Promise<string> {
  return (bundle ??= build());
}

async function build(): Promise<string> {
  if (!isStale()) return BUNDLE;
  await mkdir(path.dirname(BUNDLE), { recursive: true });
  await withLock(
    path.join(ROOT, 'dist', '.build.lock'),
    async () => {
      if (isStale()) await promisify(execFile)(process.execPath, ['scripts/build.ts'], { cwd: ROOT });
    },
    () => undefined,
  );
  return BUNDLE;
}

function isStale(): boolean {
  const built = statSync(BUNDLE, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const sources = globSync(
    ['src/**/*.ts', 'ui/**/*.{ts,css}', 'deploy/crds/*.yaml', 'scripts/build.ts', 'package.json'],
    { cwd: ROOT },
  );
  return sources
    .filter((file) => !file.endsWith('.test.ts'))
    .some((file) => (statSync(path.join(ROOT, file), { throwIfNoEntry: false })?.mtimeMs ?? 0) > built);
}
