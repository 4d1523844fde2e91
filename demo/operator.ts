/** Runs Keyferry as a separate process, from the bundle that users run, too. */
import path from 'node:path';

import { freePort } from '../test/servers/ports.ts';
import { ServerProcess } from '../test/servers/server-process.ts';
import type { Ground } from './ground.ts';

const PROGRAM = path.join(import.meta.dirname, '..', 'bin', 'keyferry.cjs');
const READY_TIMEOUT_MS = 30_000;
/** Time limit for the stop of Keyferry, ms. Keyferry usually stops within 5 s. */
const STOP_TIMEOUT_MS = 6000;

export class OperatorProcess implements AsyncDisposable {
  readonly statusUrl: string;
  readonly #process: ServerProcess;

  private constructor(statusUrl: string, process: ServerProcess) {
    this.statusUrl = statusUrl;
    this.#process = process;
  }

  /**
   * Starts Keyferry and waits until it is ready.
   * @param command command of Keyferry with flags; by default, the controllers of the walks that need no other program
   * @param name name of the process and of its log file
   * @throws Error with the end of the log if Keyferry does not become ready
   */
  static async start(
    ground: Pick<Ground, 'kubeconfigPath' | 'context' | 'folder'>,
    command: readonly string[] = ['run', '--controllers', 'mirrors,replicator'],
    name = 'keyferry',
  ): Promise<OperatorProcess> {
    const address = `127.0.0.1:${await freePort()}`;
    const args = [...command, '--status-address', address];
    if (ground.kubeconfigPath !== undefined) args.push('--kubeconfig', ground.kubeconfigPath);
    if (ground.context !== undefined) args.push('--context', ground.context);
    const child = new ServerProcess({
      name,
      command: process.execPath,
      // bin/keyferry.cjs replaces itself by Node with the bundle. So this process ID is that of Keyferry.
      args: [PROGRAM, ...args],
      logFile: path.join(ground.folder, `${name}.log`),
    });
    const operator = new OperatorProcess(`http://${address}`, child);
    try {
      await child.ready(async () => (await fetch(`${operator.statusUrl}/readyz`)).ok, READY_TIMEOUT_MS);
      return operator;
    } catch (error) {
      await child.kill();
      throw error;
    }
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  get logFile(): string {
    return this.#process.logFile;
  }

  /** Checks that Keyferry runs. @throws Error with the end of the log if it has exited */
  assertRunning(): void {
    if (this.#process.running) return;
    throw new Error(`keyferry exited; the end of its log (${this.logFile}):\n${this.#process.logTail()}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process.stop(STOP_TIMEOUT_MS);
  }
}
