/**
 * Waits for the watches to bring back what our own writes answered. A write that never comes back says that a watch is dead
 * long before its silence does, or that what the write answered has been overtaken unseen.
 *
 *   expected ──a watch brings the object──▶ (forgotten)
 *      │ 5 s                                    ▲
 *      ▼                                        │
 *   late: the watches that were silent meanwhile are opened again ──▶ given up after another 15 s
 *
 * One timer for all, and none while nothing is expected. Keys are in the order of their writes.
 */
import type { Clock, Timer } from '../../runtime/clock.ts';

/** A watch brings an event within milliseconds; a server that needs this long for it is as good as none. */
export const LATE_MS = 5000;
const GIVE_UP_MS = 20_000;

export interface PendingWritesOptions {
  readonly clock: Clock;
  /** Writes of `sinceMs` ago or longer have not come back. */
  readonly onLate: (sinceMs: number) => void;
  /** The write to `key` will not come back: nobody vouches for what it answered. */
  readonly onGivenUp: (key: string) => void;
}

interface Expected {
  readonly at: number;
  late: boolean;
}

export class PendingWrites {
  readonly #options: PendingWritesOptions;
  readonly #expected = new Map<string, Expected>();
  #timer: Timer | undefined;

  constructor(options: PendingWritesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#expected.size;
  }

  expect(key: string): void {
    this.#expected.delete(key);
    this.#expected.set(key, { at: this.#options.clock.monotonic(), late: false });
    this.#timer ??= this.#arm(LATE_MS);
  }

  arrived(key: string): void {
    if (this.#expected.size > 0) this.#expected.delete(key);
  }

  stop(): void {
    this.#expected.clear();
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(ms: number): Timer {
    return this.#options.clock.setTimeout(() => this.#look(), ms, { unref: true });
  }

  #look(): void {
    const now = this.#options.clock.monotonic();
    let next: number | undefined;
    let sinceMs = 0;
    for (const [key, expected] of this.#expected) {
      const age = now - expected.at;
      if (age >= GIVE_UP_MS) {
        this.#expected.delete(key);
        this.#options.onGivenUp(key);
        continue;
      }
      if (age >= LATE_MS && !expected.late) {
        expected.late = true;
        sinceMs = Math.max(sinceMs, age);
      }
      const due = expected.at + (expected.late ? GIVE_UP_MS : LATE_MS);
      next = Math.min(next ?? Infinity, due);
    }
    this.#timer = next === undefined ? undefined : this.#arm(next - now);
    if (sinceMs > 0) this.#options.onLate(sinceMs);
  }
}
