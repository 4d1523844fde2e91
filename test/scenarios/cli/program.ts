/** Runs the program, as a process or in the process of the test. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';

import { runCommandLine } from '../../../src/cli/command-line.ts';
import { COMPILED_CODE } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';

const BUNDLE = path.join(import.meta.dirname, '../../../dist/keyferry.cjs');
const TIMEOUT_MS = 60_000;

export interface ProgramResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Commands that read the cluster, print, and end. Those in `started` ran as a process of the bundle. */
const READING = new Set(['status', 'plan', 'explain']);
const started = new Set<string>();

/**
 * Runs a command until it ends. A command that reads runs in the process of the test from its second run on: this takes a
 * quarter of the CPU time.
 */
export async function runProgram(args: readonly string[], input = ''): Promise<ProgramResult> {
  const [command = ''] = args;
  const isProcess = !READING.has(command) || !started.has(command) || args.includes('-w');
  started.add(command);
  return await (isProcess ? runProcess(args, input) : runHere(args, input));
}

async function runHere(args: readonly string[], input: string): Promise<ProgramResult> {
  const written = { stdout: '', stderr: '' };
  const sink = (where: keyof typeof written): Writable =>
    new Writable({
      decodeStrings: false,
      write: (part: string, _encoding, done) => {
        written[where] += part;
        done();
      },
    });
  const stdin = Readable.from([Buffer.from(input)]);
  const code = await runCommandLine(args, { stdin, stdout: sink('stdout'), stderr: sink('stderr') }, [BUNDLE, 'node']);
  return { code, ...written };
}

async function runProcess(args: readonly string[], input: string): Promise<ProgramResult> {
  const child = spawn(process.execPath, [...COMPILED_CODE, BUNDLE, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: TIMEOUT_MS,
  });
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

/** A command that runs until it gets a signal. */
export class RunningProgram implements AsyncDisposable {
  readonly #child;
  readonly #ended: Promise<unknown[]>;
  readonly #written = { stdout: '', stderr: '' };

  constructor(args: readonly string[], file = BUNDLE) {
    this.#child = spawn(process.execPath, [...COMPILED_CODE, file, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#ended = once(this.#child, 'close');
    for (const where of ['stdout', 'stderr'] as const) {
      this.#child[where].on('data', (part: Buffer) => (this.#written[where] += part.toString()));
    }
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get stdout(): string {
    return this.#written.stdout;
  }

  /** Waits until the output by now matches a pattern. */
  async seen(where: 'stdout' | 'stderr', pattern: RegExp): Promise<void> {
    const message = (): string => `${pattern} in ${where}:\n${this.#written.stdout}\n${this.#written.stderr}`;
    await waitFor(() => pattern.test(this.#written[where]), { message });
  }

  /** Sends SIGINT and waits until the command ends. @returns exit code and signal */
  async interrupt(): Promise<unknown[]> {
    this.#child.kill('SIGINT');
    return await this.#ended;
  }

  /**
   * Closes stdout, as the next program in a pipe does when it ends, and waits until the command ends.
   * @returns exit code and signal
   */
  async closePipe(): Promise<unknown[]> {
    this.#child.stdout.destroy();
    return await this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}
