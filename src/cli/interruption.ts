/** The end of a command that runs until it is interrupted. */

import { STOP_SIGNALS } from './stop-signals.ts';

/** A signal that is aborted when the process is told to end, or when the reader of its output has closed the pipe. */
export class Interruption implements Disposable {
  readonly #controller = new AbortController();
  readonly #end = (): void => this.#controller.abort();

  constructor() {
    for (const name of STOP_SIGNALS) process.once(name, this.#end);
    process.stdout.once('error', this.#end);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    for (const name of STOP_SIGNALS) process.off(name, this.#end);
    process.stdout.off('error', this.#end);
  }
}
