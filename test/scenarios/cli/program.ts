/** Runs the program as a user does, for tests of commands that end by themselves. */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { text } from 'node:stream/consumers';

const BUNDLE = path.join(import.meta.dirname, '../../../dist/keyferry.cjs');
const TIMEOUT_MS = 60_000;

export interface ProgramResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one command to its end. */
export async function runProgram(args: readonly string[], input = ''): Promise<ProgramResult> {
  const child = spawn(process.execPath, [BUNDLE, ...args], { stdio: ['pipe', 'pipe', 'pipe'], timeout: TIMEOUT_MS });
  child.stdin.end(input);
  const [stdout, stderr, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    }),
  ]);
  return { code, stdout, stderr };
}
