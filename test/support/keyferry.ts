/**
 * Runs Keyferry as users run it: the bundle as a separate process.
 *
 * States: running → ended, after `stop`, after `kill9` or by itself. Logs can be read in both states. Probes, metrics
 * and memory can be read only while the process runs.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import path from 'node:path';

import nodeFlags from '../../bin/node-flags.cjs';
import { freePort } from '../servers/ports.ts';
import { Reaper } from '../servers/reaper.ts';
import { resumeProcess, suspendProcess } from '../servers/suspend.ts';
import { ensureBundle } from './bundle.ts';
import { HttpClient } from './http.ts';
import type { HttpAnswer } from './http.ts';
import { readCpuSeconds, readMemory, readWaitMs } from './process-figures.ts';
import type { MemoryFigures } from './process-figures.ts';
import { metricValue } from './prometheus.ts';
import { PATIENCE_MS, waitFor } from './wait-for.ts';

export interface KeyferryOptions {
  readonly kubeconfig: string;
  /** The bundle. Default: that of this checkout. */
  readonly bundle?: string;
  /** Keyferry's command. Default: `run`. */
  readonly command?: string;
  /** Arguments after the command. */
  readonly args?: readonly string[];
  /** Environment variables, in addition to those of the test's process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Flags of Node, in addition to those that Keyferry always has. */
  readonly nodeArgs?: readonly string[];
  /** The address for probes and metrics. Default: a free port on loopback. */
  readonly statusAddress?: string;
}

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** With this module, a process starts with the compiled code of an earlier one, and needs a third less CPU time for it. */
export const COMPILED_CODE = ['--require', path.join(import.meta.dirname, 'compiled-code.cjs')] as const;

/** Time limit of `stop`, ms. It is long; a test that checks how fast Keyferry stops measures the time itself. */
const STOP_TIMEOUT_MS = PATIENCE_MS;

export class Keyferry {
  /** Base URL for probes and metrics: `http://127.0.0.1:PORT`. */
  readonly statusUrl: string;
  readonly #child: ChildProcess;
  readonly #http: HttpClient;
  readonly #ended: Promise<void>;
  #stdout = '';
  #stderr = '';

  private constructor(child: ChildProcess, statusAddress: string) {
    this.#child = child;
    this.statusUrl = `http://${statusAddress}`;
    this.#http = new HttpClient(this.statusUrl);
    if (child.pid !== undefined) Reaper.shared().addProcess(child.pid);
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.#stdout += text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#stderr += text));
    this.#ended = new Promise((resolve) => {
      child.once('error', (error) => {
        this.#stderr += `${error.message}\n`;
        resolve();
      });
      // Not `exit`: only at `close` the output is complete.
      child.once('close', () => {
        if (child.pid !== undefined) Reaper.shared().removeProcess(child.pid);
        resolve();
      });
    });
  }

  /** Builds the bundle if necessary, and starts it. Does not wait until Keyferry is ready. */
  static async start(options: KeyferryOptions): Promise<Keyferry> {
    const bundle = options.bundle ?? (await ensureBundle());
    const statusAddress = options.statusAddress ?? `127.0.0.1:${await freePort()}`;
    const args = [
      // The flags are those of bin/keyferry.cjs. That launcher is not used, because it accepts no other flags of Node.
      ...nodeFlags,
      ...COMPILED_CODE,
      ...(options.nodeArgs ?? []),
      bundle,
      options.command ?? 'run',
      `--kubeconfig=${options.kubeconfig}`,
      `--status-address=${statusAddress}`,
      ...(options.args ?? []),
    ];
    const child = spawn(process.execPath, args, {
      env: { ...process.env, NODE_OPTIONS: '', ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return new Keyferry(child, statusAddress);
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error(`Keyferry was not started: ${this.#stderr}`);
    return this.#child.pid;
  }

  get running(): boolean {
    return this.#child.pid !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  get stdout(): string {
    return this.#stdout;
  }

  get stderr(): string {
    return this.#stderr;
  }

  /** Stdout and stderr until now. */
  get output(): string {
    return this.#stdout + this.#stderr;
  }

  /** The complete lines of the log, parsed. A line that is not a JSON object is left out. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads arbitrary fields
  logs(): any[] {
    return [this.#stdout, this.#stderr]
      .flatMap((text) => text.slice(0, text.lastIndexOf('\n') + 1).split('\n'))
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as unknown);
  }

  /** Sends a GET request for probes or metrics. */
  probe(path: string): Promise<HttpAnswer> {
    return this.#http.send(path, { timeoutMs: PATIENCE_MS });
  }

  async isReady(): Promise<boolean> {
    return (await this.probe('/readyz')).status === 200;
  }

  /**
   * Waits until /readyz answers 200.
   * @throws Error with the end of the log, if Keyferry exits or the time limit has passed
   */
  async ready(timeoutMs = PATIENCE_MS): Promise<void> {
    const given = new AbortController();
    void this.#ended.then(() => given.abort(new Error(`Keyferry ended before it was ready:\n${this.#tail()}`)));
    await waitFor(() => this.isReady(), {
      timeoutMs,
      signal: given.signal,
      message: () => `Keyferry to be ready; the end of its log:\n${this.#tail()}\n`,
    });
  }

  /** The text of /metrics. */
  async metrics(): Promise<string> {
    return (await this.probe('/metrics')).text;
  }

  /** The sum of all series with this name and these labels; `undefined` if there is no such series. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number | undefined> {
    return metricValue(await this.metrics(), name, labels);
  }

  /** The memory of the process. Linux only. */
  memory(): Promise<MemoryFigures> {
    return readMemory(this.pid);
  }

  /** CPU time (user and system) since the start, s, exact to 0.01 s. Linux only. */
  cpuSeconds(): Promise<number> {
    return readCpuSeconds(this.pid);
  }

  /** How long the process had work to do but no free processor, ms. Linux only. */
  waitMs(): Promise<number> {
    return readWaitMs(this.pid);
  }

  /** Sends a signal, and does not wait for its effect. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /**
   * Sends SIGTERM or another signal, and waits for the end. After 60 s it sends SIGKILL; the result shows this signal.
   */
  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ending> {
    return this.#end(signal);
  }

  kill9(): Promise<Ending> {
    return this.#end('SIGKILL');
  }

  /** Suspends the process with SIGSTOP. Resolves when the process does nothing any more, until `resume`. */
  async suspend(): Promise<void> {
    await suspendProcess(this.pid);
  }

  resume(): void {
    resumeProcess(this.pid);
  }

  /** Waits until the process has ended, for any reason. */
  async ended(): Promise<Ending> {
    return this.#ending();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill9();
  }

  async #end(signal: NodeJS.Signals): Promise<Ending> {
    if (this.running) this.#child.kill(signal);
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    const ending = await this.#ending();
    clearTimeout(timer);
    return ending;
  }

  async #ending(): Promise<Ending> {
    await this.#ended;
    this.#http.close();
    return { code: this.#child.exitCode, signal: this.#child.signalCode };
  }

  #tail(): string {
    return this.output.trimEnd().split('\n').slice(-15).join('\n');
  }
}
