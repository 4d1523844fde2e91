/**
 * Waits until a watch brings each own write (expectations in client-go). If the event does not come, the watch may be
 * dead. So a dead watch is found sooner than by its idle limit.
 *
 *   expected ──a watch brings the object──▶ (done)
 *      │ 5 s                                ▲
 *      ▼                                    │
 *   late: watches without an event since the write are opened again ──▶ given up after another 15 s
 *
 * All writes share one timer. It runs only while a write is expected.
 */
import type { Clock, Timer } from '../../../runtime/clock.ts';

/** A write that no watch has brought is late after this time, ms. A working watch needs only a few milliseconds. */
export const LATE_MS = 5000;
const GIVE_UP_MS = 20_000;

export interface PendingWritesOptions {
  readonly clock: Clock;
  /** Called if no watch has brought a write of `sinceMs` ago. */
  readonly onLate: (sinceMs: number) => void;
  /** Called if no watch has brought the write to `key` within 20 s: the write is no longer expected. */
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
    return this.#options.clock.setTimeout(() => this.#check(), ms, { unref: true });
  }

  #check(): void {
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
