/**
 * Hundreds of namespaces can be created at once, and each evaluation of a rule that matches them all covers all namespaces. So the
 * rules to evaluate are collected for a while:
 *
 *   idle ──add: handle now──▶ waiting ──timer, items were added: handle them──▶ waiting
 *                                └─────timer, no items were added──▶ idle
 *
 * Invariant: every added item is handled at once, or is collected while a timer runs.
 */
import type { Clock } from '../../runtime/clock.ts';

/** @typeParam T handled once for each wait, no matter how often it was added */
export class Batcher<T> {
  readonly #clock: Clock;
  readonly #waitMs: number;
  readonly #handle: (item: T) => void;
  readonly #collected = new Set<T>();
  #timer: { cancel(): void } | undefined;
  #stopped = false;

  constructor(clock: Clock, waitMs: number, handle: (item: T) => void) {
    this.#clock = clock;
    this.#waitMs = waitMs;
    this.#handle = handle;
  }

  add(items: Iterable<T>): void {
    if (this.#stopped) return;
    for (const item of items) this.#collected.add(item);
    if (this.#timer === undefined) this.#flush();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#collected.clear();
  }

  #flush(): void {
    this.#timer = undefined;
    if (this.#collected.size === 0) return;
    const items = [...this.#collected];
    this.#collected.clear();
    this.#timer = this.#clock.setTimeout(() => this.#flush(), this.#waitMs, { unref: true });
    for (const item of items) this.#handle(item);
  }
}
