/** The end of a command that runs until it is interrupted. */
import { onStopSignal } from '../operator/stop-signals.ts';

/** A signal that is aborted when the process is told to end, or when the reader of its output has closed the pipe. */
export class Interruption implements Disposable {
  readonly #controller = new AbortController();
  readonly #end = (): void => this.#controller.abort();
  readonly #ignoreSignals = onStopSignal(this.#end);

  constructor() {
    process.stdout.once('error', this.#end);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    this.#ignoreSignals();
    process.stdout.off('error', this.#end);
  }
}
