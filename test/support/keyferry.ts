/**
 * Keyferry as users run it: the bundle, in a process of its own.
 *
 * States: running → ended, by `stop`, by `kill9` or by itself. Logs can be read in both states, probes and figures only
 * while it runs.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';

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
  /** The command. Default: `run`. */
  readonly command?: string;
  /** Arguments after the command. */
  readonly args?: readonly string[];
  /** Variables beside those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Flags of Node after those that Keyferry always has. */
  readonly nodeArgs?: readonly string[];
  /** The address of probes and metrics. Default: a free port on loopback. */
  readonly statusAddress?: string;
}

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Time limit of `stop`, ms. Tests of a stop measure its time themselves. */
const STOP_TIMEOUT_MS = PATIENCE_MS;

export class Keyferry {
  /** The URL of probes and metrics: `http://127.0.0.1:PORT`. */
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
      // `close` and not `exit`: only then the output is complete.
      child.once('close', () => {
        if (child.pid !== undefined) Reaper.shared().removeProcess(child.pid);
        resolve();
      });
    });
  }

  /** Starts the process from an up-to-date bundle, and does not wait until it is ready. */
  static async start(options: KeyferryOptions): Promise<Keyferry> {
    const bundle = await ensureBundle();
    const statusAddress = options.statusAddress ?? `127.0.0.1:${await freePort()}`;
    const args = [
      // The flags that bin/keyferry.cjs sets. It cannot be used here, because it passes on no other flags of Node.
      ...nodeFlags,
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

  /** All output so far. */
  get output(): string {
    return this.#stdout + this.#stderr;
  }

  /** The complete lines of the log as objects. Lines that are no JSON object are left out. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads arbitrary fields
  logs(): any[] {
    return [this.#stdout, this.#stderr]
      .flatMap((text) => text.slice(0, text.lastIndexOf('\n') + 1).split('\n'))
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as unknown);
  }

  /** Sends a GET to the address of probes and metrics. */
  probe(path: string): Promise<HttpAnswer> {
    return this.#http.send(path, { timeoutMs: PATIENCE_MS });
  }

  async isReady(): Promise<boolean> {
    return (await this.probe('/readyz')).status === 200;
  }

  /**
   * Waits until /readyz answers 200.
   * @throws Error with the end of the log if the process exits, or at the time limit
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

  /** The sum of the series of this name with these labels; `undefined` if there are none. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number | undefined> {
    return metricValue(await this.metrics(), name, labels);
  }

  /** The memory of the process. Linux only. */
  memory(): Promise<MemoryFigures> {
    return readMemory(this.pid);
  }

  /** CPU time in user and system mode since the start, s, to a hundredth. Linux only. */
  cpuSeconds(): Promise<number> {
    return readCpuSeconds(this.pid);
  }

  /** The time for which the process has waited for a processor, ms. Linux only. */
  waitMs(): Promise<number> {
    return readWaitMs(this.pid);
  }

  /** Sends a signal without waiting for its effect. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /**
   * Sends SIGTERM or another signal, and waits for the end. After a minute it sends SIGKILL, which the result shows.
   */
  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ending> {
    return this.#end(signal);
  }

  kill9(): Promise<Ending> {
    return this.#end('SIGKILL');
  }

  /** Suspends the process with SIGSTOP. Once this resolves, it does nothing until `resume`. */
  async suspend(): Promise<void> {
    await suspendProcess(this.pid);
  }

  resume(): void {
    resumeProcess(this.pid);
  }

  /** Waits until the process has ended, by itself or by a signal. */
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
