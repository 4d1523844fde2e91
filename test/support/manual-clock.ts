/**
 * A clock for tests that only `advance` moves.
 *
 * Timers fire in the order of their due times, and in the order of their creation if these are equal. After each timer
 * the event loop gets a turn. So a promise that the timer settles can set another timer, which fires within the same
 * `advance`.
 */
import type { Clock, Timer } from '../../src/runtime/clock.ts';

interface Pending {
  readonly at: number;
  readonly run: () => void;
}

export class ManualClock implements Clock {
  #elapsed = 0;
  #wall: number;
  readonly #pending = new Set<Pending>();

  /** @param startMs - the wall clock at the beginning, ms since 1970 */
  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#wall = startMs;
  }

  /** The number of pending timers. A test that ends with more than 0 has leaked one. */
  get pendingTimers(): number {
    return this.#pending.size;
  }

  now(): number {
    return this.#wall;
  }

  monotonic(): number {
    return this.#elapsed;
  }

  setTimeout(run: () => void, ms: number): Timer {
    const timer: Pending = { at: this.#elapsed + Math.max(0, ms), run };
    this.#pending.add(timer);
    const cancel = (): void => {
      this.#pending.delete(timer);
    };
    return { cancel, [Symbol.dispose]: cancel };
  }

  /** Moves the wall clock and the monotonic clock forward by `ms`, and fires the timers that become due. */
  async advance(ms: number): Promise<void> {
    const end = this.#elapsed + ms;
    await turn();
    for (let next = this.#nextDue(end); next !== undefined; next = this.#nextDue(end)) {
      this.#moveTo(next.at);
      this.#pending.delete(next);
      next.run();
      await turn();
    }
    this.#moveTo(end);
  }

  /** Moves only the wall clock, as an administrator or NTP does. Timers and `monotonic` do not change. */
  jump(ms: number): void {
    this.#wall += ms;
  }

  #moveTo(elapsed: number): void {
    this.#wall += elapsed - this.#elapsed;
    this.#elapsed = elapsed;
  }

  #nextDue(end: number): Pending | undefined {
    let first: Pending | undefined;
    for (const timer of this.#pending) {
      if (timer.at <= end && (first === undefined || timer.at < first.at)) first = timer;
    }
    return first;
  }
}

/** Waits two turns of the event loop: for scheduled callbacks, and for those that their promises schedule. */
async function turn(): Promise<void> {
  for (let turns = 0; turns < 2; turns++) await new Promise<void>((resolve) => setImmediate(resolve));
}
