/**
 * A client that does nothing but send the same calls: the least that any program needs for them. It uses plain
 * node:https or node:http and 16 kept connections, in a process of its own, without watches and decisions. Ratios to
 * its times can be compared between machines.
 */
import { fork, type ChildProcess } from 'node:child_process';
import path from 'node:path';

export interface BareCall {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: string;
  /** Whether the status 404 is fine, too. */
  readonly maybeAbsent?: boolean;
}

export interface BareJob {
  readonly url: string;
  /** The authority of the server's certificate. Not used for a URL with `http:`. */
  readonly caPem: string;
  /** The bearer token, for Kubernetes or for Vault. */
  readonly token: string;
  readonly calls: readonly BareCall[];
}

/** The cost of all calls, from the first request to the last response. */
export interface BareTime {
  readonly ms: number;
  readonly cpuSeconds: number;
}

export type BareResult = BareTime | { readonly error: string };

export class BareClient implements Disposable {
  readonly #server: Omit<BareJob, 'calls'>;
  readonly #child: ChildProcess;

  constructor(server: Omit<BareJob, 'calls'>) {
    this.#server = server;
    this.#child = fork(path.join(import.meta.dirname, 'bare-worker.ts'));
  }

  /** Sends the calls, and waits for all responses. */
  async run(calls: readonly BareCall[]): Promise<BareTime> {
    const result = await new Promise<BareResult>((resolve, reject) => {
      const ended = (code: number | null): void => reject(new Error(`the bare client ended with ${code}`));
      this.#child.once('exit', ended);
      this.#child.once('message', (message) => {
        this.#child.off('exit', ended);
        resolve(message as BareResult);
      });
      this.#child.send({ ...this.#server, calls } satisfies BareJob);
    });
    if ('error' in result) throw new Error(result.error);
    return result;
  }

  [Symbol.dispose](): void {
    this.#child.kill();
  }
}
