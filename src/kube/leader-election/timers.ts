/** The two time limits of a leader: of its leadership, and of its last requests. */
import type { Clock } from '../../runtime/clock.ts';

/** Calls once when its time has come; setting it moves the time. */
export class Watchdog {
  readonly #clock: Clock;
  readonly #bark: () => void;
  #timer: Disposable | undefined;

  constructor(clock: Clock, bark: () => void) {
    this.#clock = clock;
    this.#bark = bark;
  }

  set(at: number): void {
    this.cancel();
    if (at > -Infinity) this.#timer = this.#clock.setTimeout(this.#bark, at - this.#clock.monotonic());
  }

  cancel(): void {
    this.#timer?.[Symbol.dispose]();
  }
}

/** Cuts requests off a while after `begin`, so that an API server that hangs does not keep the process from ending. */
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
