/** The commit of what is built: `keyferry version` prints it, and the image has it as a label. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';

const ROOT = path.join(import.meta.dirname, '..');

/**
 * `KEYFERRY_COMMIT`, which names it where the checkout is missing; else `HEAD`, with `-dirty` if files differ from it.
 * @returns `undefined` if neither is there
 */
export function sourceCommit(): string | undefined {
  const given = process.env['KEYFERRY_COMMIT'] ?? '';
  if (given !== '') return given;
  // Without a .git of its own, the folder may be inside another project.
  const head = existsSync(path.join(ROOT, '.git')) ? git('rev-parse', 'HEAD') : undefined;
  if (head === undefined) return undefined;
  return git('status', '--porcelain', '--untracked-files=no') === '' ? head : `${head}-dirty`;
}

/** @returns `undefined` if Git or the checkout is missing */
function git(...args: readonly string[]): string | undefined {
  const { status, stdout } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}
