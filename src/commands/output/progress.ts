/** What a command does now, as one line on standard error that goes away. Only on a terminal, and only if the work is long. */
import type { Lister } from '../../controllers/common/snapshot/inventory.ts';
import { type Clock, systemClock } from '../../runtime/clock.ts';

/** Shorter work shows nothing, ms. */
const DELAY_MS = 1000;
/** The line changes at most once in this time, ms. */
const INTERVAL_MS = 100;
/** To the begin of the line, and erases it. */
const CLEAR = '\r\u001B[K';
const COLUMNS = 80;

/** `process.stderr` */
export interface ProgressStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export class Progress implements Disposable {
  readonly #stream: ProgressStream;
  readonly #clock: Clock;
  readonly #isOn: boolean;
  #nextAt: number;
  #isShown = false;
  #isEnded = false;

  /** @param term `$TERM`: a dumb terminal cannot erase a line */
  constructor(stream: ProgressStream, term: string | undefined, clock: Clock = systemClock) {
    this.#stream = stream;
    this.#clock = clock;
    this.#isOn = stream.isTTY === true && term !== 'dumb';
    this.#nextAt = clock.monotonic() + DELAY_MS;
  }

  /** Shows a text, unless it is too early or the work has ended. Cheap. */
  show(text: () => string): void {
    if (!this.#isOn || this.#isEnded) return;
    const now = this.#clock.monotonic();
    if (now < this.#nextAt) return;
    this.#nextAt = now + INTERVAL_MS;
    this.#isShown = true;
    this.#stream.write(`${CLEAR}${text().slice(0, (this.#stream.columns ?? COLUMNS) - 1)}`);
  }

  /** The work has ended, and its output follows: removes the line. */
  end(): void {
    this.#isEnded = true;
    if (this.#isShown) this.#stream.write(CLEAR);
    this.#isShown = false;
  }

  [Symbol.dispose](): void {
    this.end();
  }
}

/** The lister, which shows how many objects it has read. */
export function withProgress(lister: Lister, progress: Progress): Lister {
  let count = 0;
  return async (collection, namespace, take, options) =>
    await lister(
      collection,
      namespace,
      (item) => {
        count += 1;
        progress.show(() => `reading the cluster: ${count} objects`);
        take(item);
      },
      options,
    );
}
