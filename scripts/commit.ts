/** The Git commit that is built. `keyferry version` prints it, and a label of the image contains it. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';

const ROOT = path.join(import.meta.dirname, '..');

/**
 * The value of `KEYFERRY_COMMIT`, for builds without a Git checkout. Otherwise the commit of `HEAD`, with `-dirty` if
 * tracked files differ from it.
 * @returns `undefined` if there is neither this variable nor a Git checkout
 */
export function sourceCommit(): string | undefined {
  const given = process.env['KEYFERRY_COMMIT'] ?? '';
  if (given !== '') return given;
  // Without a .git of its own, this folder may be inside another project, and Git would print that project's commit.
  const head = existsSync(path.join(ROOT, '.git')) ? git('rev-parse', 'HEAD') : undefined;
  if (head === undefined) return undefined;
  return git('status', '--porcelain', '--untracked-files=no') === '' ? head : `${head}-dirty`;
}

/** The output of a Git command. @returns `undefined` if the command fails, or if there is no Git */
function git(...args: readonly string[]): string | undefined {
  const { status, stdout } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}
