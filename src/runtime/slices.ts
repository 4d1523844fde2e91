/**
 * Long work in short slices, so that no user's object holds the event loop: probes, watches and everybody else's work get their turn in
 * between.
 *
 * All work of one `Slices` shares one slice in each turn of the event loop: eight workers at once hold it no longer than one.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from './clock.ts';

/** How long the work of one turn of the event loop may take, ms. A probe waits for a few of these at most. */
const SLICE_MS = 10;

/** Work that can be left off at every `yield`. */
export type Steps<T> = Generator<void, T, void>;

export class Slices {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** When the work of this turn began. */
  #since: number | undefined;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Does the work; at a step at which the slice is used up the event loop goes round first. @throws what the work throws, or the signal's reason */
  async run<T>(work: Steps<T>, signal?: AbortSignal): Promise<T> {
    for (;;) {
      if (this.#isUsedUp()) {
        await this.pause();
        signal?.throwIfAborted();
      }
      const step = work.next();
      if (step.done === true) return step.value;
    }
  }

  /** Settles when there is some of a slice left. */
  async pause(): Promise<void> {
    while (this.#isUsedUp()) await nextTurn();
  }

  #isUsedUp(): boolean {
    const now = this.#clock.monotonic();
    if (this.#since === undefined) {
      this.#since = now;
      setImmediate(() => {
        this.#since = undefined;
      });
    }
    return now - this.#since >= SLICE_MS;
  }
}

/** Does the work without a pause: for commands, which hold up nobody. */
export function finish<T>(work: Steps<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}
