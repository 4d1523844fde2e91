import { spawnSync } from 'node:child_process';

/**
 * Runs a program and waits for its end.
 * @returns its stdout
 * @throws Error with its stderr if it fails; Error if it does not exist
 */
export function execute(program: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  if (error !== undefined) throw new Error(`${program} cannot be run: ${error.message}`);
  if (status !== 0) throw new Error(`${program} ${args.at(-1) ?? ''} failed: ${stderr.trim()}`);
  return stdout;
}
