/** The end of a command that runs until it is interrupted. */

/** As for the operator: a terminal that is closed sends SIGHUP. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** A signal that is aborted when the process is told to end, or when the reader of its output has closed the pipe. */
export class Interruption implements Disposable {
  readonly #controller = new AbortController();
  readonly #end = (): void => this.#controller.abort();

  constructor() {
    for (const name of SIGNALS) process.once(name, this.#end);
    process.stdout.once('error', this.#end);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    for (const name of SIGNALS) process.off(name, this.#end);
    process.stdout.off('error', this.#end);
  }
}
