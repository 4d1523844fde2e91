/**
 * A clock for tests. It moves only when the test calls `advance`.
 *
 * Timers fire in the order of their times. If these are equal, the timer that was set first fires first. After each
 * timer the event loop runs. So code that waits for this timer can set another timer, and that one fires in the same
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

  /** @param startMs - the time of the wall clock at the beginning, ms since 1970 */
  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#wall = startMs;
  }

  /** The number of timers that have not fired. If a test ends with more than 0, the tested code leaks timers. */
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

  /** Moves the wall clock and the monotonic clock forward by `ms`, and fires the timers of this time. */
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

  /** Moves only the wall clock, as NTP or an administrator does. Timers and `monotonic` stay as they are. */
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

/** Waits two rounds of the event loop: one for callbacks that are ready, one for callbacks that these schedule. */
async function turn(): Promise<void> {
  for (let turns = 0; turns < 2; turns++) await new Promise<void>((resolve) => setImmediate(resolve));
}
