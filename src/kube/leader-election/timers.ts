/** The two time limits of a leader: for its leadership, and for its last requests. */
import type { Clock } from '../../runtime/clock.ts';

/** Calls `onTime` once, at a time that can be changed. */
export class Watchdog {
  readonly #clock: Clock;
  readonly #onTime: () => void;
  #timer: Disposable | undefined;

  constructor(clock: Clock, onTime: () => void) {
    this.#clock = clock;
    this.#onTime = onTime;
  }

  set(at: number): void {
    this.cancel();
    if (at > -Infinity) this.#timer = this.#clock.setTimeout(this.#onTime, at - this.#clock.monotonic());
  }

  cancel(): void {
    this.#timer?.[Symbol.dispose]();
  }
}

/** Aborts requests some time after `begin`, so that an API server that does not answer cannot delay the end of the process. */
export class ExitLimit {
  readonly #controller = new AbortController();
  readonly #limitMs: number;
  readonly #clock: Clock;
  #timer: Disposable | undefined;

  constructor(limitMs: number, clock: Clock) {
    this.#limitMs = limitMs;
    this.#clock = clock;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  begin(): void {
    this.#timer ??= this.#clock.setTimeout(() => {
      this.#controller.abort(new Error(`the lease's last request took longer than ${this.#limitMs} ms`));
    }, this.#limitMs);
  }

  cancel(): void {
    this.#timer?.[Symbol.dispose]();
  }
}
