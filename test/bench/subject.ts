/**
 * The program that is measured: Keyferry's bundle or another command. It writes its log into a file, connects through a
 * proxy that counts bytes, and has its own user.
 *
 * States: running → stopped. Each start of the program makes a new Subject.
 */
import path from 'node:path';
import { HttpClient } from '../support/http.ts';
import { ServerProcess } from '../servers/server-process.ts';
import { ProcessMeter } from './process-meter.ts';

const LAUNCHER = path.join(import.meta.dirname, '../../bin/keyferry.cjs');
const READY_POLL_MS = 10;

export interface SubjectOptions {
  /** The arguments of Keyferry; or the command line of another program, which contains `{kubeconfig}`. */
  readonly command: readonly string[] | string;
  readonly kubeconfigPath: string;
  readonly statusPort: number;
  readonly logFile: string;
  readonly nodeOptions: string | undefined;
}

export class Subject implements AsyncDisposable {
  readonly meter: ProcessMeter;
  readonly startedAt: number;
  readonly #process: ServerProcess;
  readonly #statusPort: number | undefined;

  constructor({ command, kubeconfigPath, statusPort, logFile, nodeOptions }: SubjectOptions) {
    const isOurs = typeof command !== 'string';
    const status = `127.0.0.1:${statusPort}`;
    this.startedAt = performance.now();
    this.#process = new ServerProcess({
      name: isOurs ? 'keyferry' : 'the controller',
      command: isOurs ? process.execPath : '/bin/sh',
      args: isOurs
        ? [LAUNCHER, ...command, '--kubeconfig', kubeconfigPath, '--status-address', status]
        : ['-c', `exec ${command.replaceAll('{kubeconfig}', kubeconfigPath)}`],
      logFile,
      ...(isOurs && nodeOptions !== undefined ? { env: { NODE_OPTIONS: nodeOptions } } : {}),
    });
    if (this.#process.pid === undefined) throw new Error(`${this.#process.name} could not be started`);
    this.meter = new ProcessMeter(this.#process.pid);
    this.#statusPort = isOurs ? statusPort : undefined;
  }

  get running(): boolean {
    return this.#process.running;
  }

  /**
   * Waits until /readyz answers 200.
   * @returns the time since the start, ms; `undefined` if the program's address for probes is not known
   */
  async ready(timeoutMs: number): Promise<number | undefined> {
    if (this.#statusPort === undefined) return undefined;
    const client = new HttpClient(`http://127.0.0.1:${this.#statusPort}`);
    try {
      const probe = async (): Promise<boolean> => (await client.send('/readyz')).status === 200;
      await this.#process.ready(async () => {
        const ready = await probe();
        if (!ready) await new Promise((resolve) => setTimeout(resolve, READY_POLL_MS));
        return ready;
      }, timeoutMs);
      return performance.now() - this.startedAt;
    } finally {
      client.close();
    }
  }

  /** The last lines of the program's log, for error messages. */
  logTail(): string {
    return this.#process.logTail();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.meter[Symbol.dispose]();
    await this.#process.stop();
  }
}
