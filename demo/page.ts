/** The page of `keyferry ui` with the copies of the demo: served by a process while the demo runs, or written into a file. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';

import { Reaper } from '../test/servers/reaper.ts';
import { waitFor } from '../test/support/wait-for.ts';
import type { Ground } from './ground.ts';

const PROGRAM = path.join(import.meta.dirname, '../bin/keyferry.cjs');
/** Git ignores this folder. */
export const REPORT = path.join(import.meta.dirname, '../dist/demo.html');
const START_MS = 30_000;

export class DemoPage implements AsyncDisposable {
  readonly #child: ChildProcess;
  #written = '';
  #addresses = 0;

  constructor(ground: Ground) {
    this.#child = run(ground, ['--open=false']);
    this.#child.stdout?.on('data', (part: Buffer) => (this.#written += part.toString()));
  }

  /** An address that opens the page once; `undefined`: the page does not run. */
  async address(signal: AbortSignal): Promise<string | undefined> {
    // The first address comes by itself, the next ones after Enter.
    if (this.#addresses > 0) this.#child.stdin?.write('\n');
    const isOver = (): boolean => this.#child.exitCode !== null || this.#child.signalCode !== null;
    const all = (): string[] => this.#written.match(/http:\S+(?=\n)/g) ?? [];
    const isThere = (): boolean => isOver() || all().length > this.#addresses;
    // The demo goes on without the page.
    const waited = waitFor(isThere, { timeoutMs: START_MS, message: 'the page of keyferry ui', signal });
    const isReady = await waited.then(
      () => !isOver(),
      () => false,
    );
    if (isReady) this.#addresses += 1;
    return isReady ? all().at(-1) : undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGINT');
    await ended;
    if (this.#child.pid !== undefined) Reaper.shared().removeProcess(this.#child.pid);
  }
}

/** Writes the page with the data of this moment. @returns whether it was written */
export async function writeReport(ground: Ground): Promise<boolean> {
  const [code] = (await once(run(ground, ['--out', REPORT]), 'exit')) as [number | null];
  return code === 0;
}

function run({ kubeconfigPath, context }: Ground, args: readonly string[]): ChildProcess {
  const cluster = [
    ...(kubeconfigPath === undefined ? [] : ['--kubeconfig', kubeconfigPath]),
    ...(context === undefined ? [] : ['--context', context]),
  ];
  const child = spawn(process.execPath, [PROGRAM, 'ui', ...args, ...cluster], { stdio: ['pipe', 'pipe', 'ignore'] });
  // A child without a listener would end the demo if its input is closed.
  child.stdin.on('error', () => undefined);
  if (child.pid !== undefined) Reaper.shared().addProcess(child.pid);
  return child;
}
