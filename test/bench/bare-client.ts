/**
 * A client that only sends given calls and reads the answers. No program that must send these calls can be faster. It
 * runs in its own process, with plain node:https and 16 connections that stay open, without watches and
 * decisions. A time divided by the bare client's time can be compared between machines.
 */
import { fork, type ChildProcess } from 'node:child_process';
import path from 'node:path';

export interface BareCall {
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: string;
}

export interface BareJob {
  readonly url: string;
  /** The CA of the server's certificate, as PEM. */
  readonly caPem: string;
  readonly token: string;
  readonly calls: readonly BareCall[];
}

/** What all calls cost together, from the first request to the last answer. */
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

  /** Sends the calls, and waits for all answers. */
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
