/**
 * Sees that a stream says something now and then. State: watching → stalled (the stream was closed for its silence) or
 * cancelled; both are final.
 */
import type { Clock, Timer } from '../../runtime/clock.ts';

/** The stream brought nothing for too long. */
export class StalledWatchError extends Error {
  override readonly name = 'StalledWatchError';
}

export interface StreamGuardOptions {
  readonly clock: Clock;
  /** Ms since the stream's last byte. */
  readonly silentMs: () => number;
  /** Longest silence, ms; asked at every look, because it depends on what the stream has brought. */
  readonly limitMs: () => number;
  /** Between two looks, ms. */
  readonly everyMs: number;
  readonly close: () => void;
}

export class StreamGuard implements Disposable {
  readonly #options: StreamGuardOptions;
  #timer: Timer;
  #stalledAfterMs: number | undefined;

  constructor(options: StreamGuardOptions) {
    this.#options = options;
    this.#timer = this.#arm();
  }

  /** Why the stream ended, if it was us; else `error` itself. */
  explain(error?: unknown): unknown {
    if (this.#stalledAfterMs === undefined) return error;
    const text = `no byte for ${Math.round(this.#stalledAfterMs)} ms`;
    return new StalledWatchError(text, error === undefined ? undefined : { cause: error });
  }

  [Symbol.dispose](): void {
    this.#timer.cancel();
  }

  #arm(): Timer {
    return this.#options.clock.setTimeout(() => this.#look(), this.#options.everyMs, { unref: true });
  }

  #look(): void {
    const { silentMs, limitMs, close } = this.#options;
    if (silentMs() < limitMs()) {
      this.#timer = this.#arm();
      return;
    }
    this.#stalledAfterMs = silentMs();
    close();
  }
}
