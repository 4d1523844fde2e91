/**
 * Namespaces come in hundreds, and a rule whose pattern matches them all is evaluated over all of them each time. So rules that
 * namespaces concern are gathered while the last of them are being worked on:
 *
 *   quiet ──add: told at once──▶ resting ──time is up, something was added: told──▶ resting
 *                                   └─────time is up, nothing was added──▶ quiet
 *
 * Invariant: what was added is told at once, or is gathered and a timer runs that will tell it.
 */
import type { Clock } from '../../runtime/clock.ts';

/** @typeParam T what is told once, however often it was added */
export class Bursts<T> {
  readonly #clock: Clock;
  readonly #restMs: number;
  readonly #tell: (item: T) => void;
  readonly #gathered = new Set<T>();
  #timer: { cancel(): void } | undefined;
  #stopped = false;

  /** @param restMs how long after a telling the next one has to wait */
  constructor(clock: Clock, restMs: number, tell: (item: T) => void) {
    this.#clock = clock;
    this.#restMs = restMs;
    this.#tell = tell;
  }

  /** Items of one event. */
  add(items: Iterable<T>): void {
    if (this.#stopped) return;
    for (const item of items) this.#gathered.add(item);
    if (this.#timer === undefined) this.#flush();
  }

  /** Nothing is told any more. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#gathered.clear();
  }

  #flush(): void {
    this.#timer = undefined;
    if (this.#gathered.size === 0) return;
    const items = [...this.#gathered];
    this.#gathered.clear();
    this.#timer = this.#clock.setTimeout(() => this.#flush(), this.#restMs, { unref: true });
    for (const item of items) this.#tell(item);
  }
}
