/**
 * Makes the container image for scenario tests, if Keyferry or the scripts that make the image have changed.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

import { withLock } from '../servers/build-lock.ts';
import { ensureBundle } from './bundle.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');
const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string };
const ARCHITECTURE = process.arch === 'arm64' ? 'arm64' : 'amd64';
/** The archive that `npm run image` writes. */
const ARCHIVE = path.join(ROOT, 'dist/image', `keyferry-${version}-${ARCHITECTURE}.tar`);
/** A file with the digest of all inputs of the image. `npm run image` deletes it together with the old image. */
const INPUTS = path.join(ROOT, 'dist/image/inputs.sha256');
/** Time limit for making the image, ms: the first time, it downloads packages. */
const TIMEOUT_MS = 10 * 60_000;

/** Name and tag of the image in the archive. */
export const IMAGE = `keyferry:${version}`;

/**
 * The path of an up-to-date archive for `docker load`. If test files run in parallel, only one of them makes it.
 * @returns `missing`: what this machine lacks to make the image. The test should then be skipped
 */
export async function ensureImage(): Promise<{ readonly archive: string } | { readonly missing: string }> {
  const bundle = await ensureBundle();
  await mkdir(path.join(ROOT, 'dist'), { recursive: true });
  try {
    await withLock(
      path.join(ROOT, 'dist', '.image.lock'),
      async () => {
        const inputs = digestOfInputs(bundle);
        if (existsSync(ARCHIVE) && existsSync(INPUTS) && readFileSync(INPUTS, 'utf8') === inputs) return;
        const args = ['scripts/image.ts', `--arch=${ARCHITECTURE}`];
        await promisify(execFile)(process.execPath, args, { cwd: ROOT, timeout: TIMEOUT_MS });
        writeFileSync(INPUTS, inputs);
      },
      () => undefined,
    );
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string };
    const reason = /^Error: (.*)$/m.exec(stderr)?.[1] ?? String(error);
    return { missing: `the image cannot be made (npm run image): ${reason}` };
  }
  return { archive: ARCHIVE };
}

function digestOfInputs(bundle: string): string {
  const sources = globSync(['scripts/image.ts', 'scripts/image/*', 'package-lock.json'], { cwd: ROOT }).toSorted();
  const hash = createHash('sha256');
  for (const file of [bundle, ...sources.map((file) => path.join(ROOT, file))])
    hash.update(readFileSync(file)).update('\0');
  return hash.digest('hex');
}
