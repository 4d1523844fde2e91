/**
 * Runs a server as a child process that writes its log into a file.
 *
 * States: running → ended, after `stop`, after `kill` or by itself. `stop` and `kill` may be called in both states, any
 * number of times.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';

import { Reaper } from './reaper.ts';
import { resumeProcess, suspendProcess } from './suspend.ts';

export interface ServerProcessOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Environment variables, in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  readonly logFile: string;
  readonly cwd?: string;
  readonly uid?: number;
  readonly gid?: number;
}

const STOP_TIMEOUT_MS = 20_000;
/** The longest pause between two probes while a server starts, ms. */
const LONGEST_PROBE_PAUSE_MS = 200;

export class ServerProcess {
  readonly name: string;
  readonly logFile: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  #spawnError: Error | undefined;

  constructor(options: ServerProcessOptions) {
    this.name = options.name;
    this.logFile = options.logFile;
    const log = openSync(options.logFile, 'a');
    try {
      this.#child = spawn(options.command, options.args, {
        env: { ...process.env, ...options.env },
        // The server has its own process group. So Ctrl-C in a terminal reaches only the test, and the test stops the
        // servers in the right order.
        detached: true,
        stdio: ['ignore', log, log],
        ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
        ...(options.uid === undefined ? {} : { uid: options.uid }),
        ...(options.gid === undefined ? {} : { gid: options.gid }),
      });
    } finally {
      closeSync(log);
    }
    const pid = this.#child.pid;
    if (pid !== undefined) Reaper.shared().addProcess(pid);
    this.#ended = new Promise((resolve) => {
      this.#child.once('error', (error) => {
        this.#spawnError = error;
        if (pid === undefined) resolve();
      });
      this.#child.once('exit', () => {
        if (pid !== undefined) Reaper.shared().removeProcess(pid);
        resolve();
      });
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get running(): boolean {
    return this.#child.pid !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Sends SIGTERM (or `signal`). Sends SIGKILL, too, if the server is still running after `timeoutMs`. */
  async stop(timeoutMs = STOP_TIMEOUT_MS, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (!this.running) return this.#ended;
    this.#child.kill(signal);
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), timeoutMs);
    await this.#ended;
    clearTimeout(timer);
  }

  /** Sends SIGKILL, and waits until the process has ended. */
  async kill(): Promise<void> {
    if (this.running) this.#child.kill('SIGKILL');
    await this.#ended;
  }

  /** Suspends the server (SIGSTOP). It keeps its connections. Resolves when it sends no more answers. */
  async pause(): Promise<void> {
    if (this.pid !== undefined) await suspendProcess(this.pid);
  }

  resume(): void {
    if (this.pid !== undefined && this.running) resumeProcess(this.pid);
  }

  /** The last lines in the log file. */
  logTail(lines = 20): string {
    return readFileSync(this.logFile, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  }

  /**
   * Waits until `probe` returns true. If `probe` throws, it is called again.
   * @throws Error with the end of the log, if the server has ended, or at the time limit
   */
  async ready(probe: () => Promise<boolean>, timeoutMs: number): Promise<void> {
    const from = performance.now();
    const deadline = from + timeoutMs;
    let last: unknown;
    for (;;) {
      if (!this.running) {
        throw this.#failure(
          `ended (${this.#child.exitCode ?? this.#child.signalCode ?? 'not started'})`,
          this.#spawnError,
        );
      }
      try {
        if (await probe()) return;
      } catch (error) {
        last = error;
      }
      const now = performance.now();
      if (now > deadline) throw this.#failure(`was not ready within ${timeoutMs} ms`, last);
      // The longer the start lasts, the longer the pause: each probe takes CPU time that the server needs.
      const pauseMs = Math.max(25, Math.min((now - from) / 10, LONGEST_PROBE_PAUSE_MS));
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  #failure(what: string, cause: unknown): Error {
    return new Error(`${this.name} ${what}; the end of its log (${this.logFile}):\n${this.logTail()}`, { cause });
  }
}
