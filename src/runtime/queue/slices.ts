/**
 * Runs long work in short slices, so that no user's object blocks the event loop: probes, watches and other work run
 * between the slices. All work of one `Slices` shares one slice in each turn of the event loop. So eight workers
 * together block the event loop for one slice at most.
 */
import type { Clock } from '../clock.ts';

/** How long the work in one turn of the event loop may take, ms. A probe waits for a few such turns at most. */
const SLICE_MS = 10;

/** The work took longer than its limit and was stopped. */
export class TooLongError extends Error {
  override readonly name = 'TooLongError';
}

/** Work that can pause at every `yield`. */
export type Steps<T> = Generator<void, T, void>;

export class Slices {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** When the slice of this turn of the event loop began; `undefined`: it has not begun. */
  #since: number | undefined;
  /** Work that waits for a slice: first in, first out, so that no long work takes every slice. */
  readonly #waiting: (() => void)[] = [];
  #isArmed = false;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /**
   * Does the work. When the slice is used up, the work goes on in a later turn of the event loop.
   * @param limitMs how long the work may take without its pauses, ms
   * @throws the error of the work, the signal's reason, or TooLongError
   */
  async run<T>(work: Steps<T>, signal?: AbortSignal, limitMs = Infinity): Promise<T> {
    let spentMs = 0;
    let from = this.#clock.monotonic();
    for (;;) {
      if (this.#isUsedUp()) {
        spentMs += this.#clock.monotonic() - from;
        if (spentMs > limitMs) throw new TooLongError(`the work takes longer than ${limitMs} ms`);
        await this.pause();
        signal?.throwIfAborted();
        from = this.#clock.monotonic();
      }
      const step = work.next();
      if (step.done === true) return step.value;
    }
  }

  /** Resolves when the current slice has time left and all work that waited earlier has continued. */
  async pause(): Promise<void> {
    if (!this.#isUsedUp() && this.#waiting.length === 0) return;
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      this.#arm();
    });
  }

  #isUsedUp(): boolean {
    const now = this.#clock.monotonic();
    if (this.#since === undefined) {
      this.#since = now;
      this.#arm();
    }
    return now - this.#since >= SLICE_MS;
  }

  /** Begins a new slice in the next turn of the event loop. The work that has waited longest gets it first. */
  #arm(): void {
    if (this.#isArmed) return;
    this.#isArmed = true;
    setImmediate(() => {
      this.#isArmed = false;
      this.#since = undefined;
      this.#waiting.shift()?.();
      if (this.#waiting.length > 0) this.#arm();
    });
  }
}

/** Does all of the work at once, without pauses: for commands, in which no other work waits. */
export function finish<T>(work: Steps<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}
