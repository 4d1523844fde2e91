/**
 * Starts the parts of the program in order and stops them in the opposite order, within a total time.
 *
 * Rules: a part that was started is stopped, also if a later one failed to start. Every stop is called, even when the
 * time is up (it then gets no wait). No failure hides another: all are in the report.
 */
import { TimeLimitError, withTimeout } from './abort.ts';
import { type Clock, systemClock } from './clock.ts';

/** A part of the program that has to be started or stopped, or both. */
export interface Component {
  /** For errors and logs: `status queue`. */
  readonly name: string;
  /** Resolves when the next component may start. */
  readonly start?: (signal: AbortSignal) => Promise<void> | void;
  /** The signal is aborted when this component's time is up. */
  readonly stop?: (signal: AbortSignal) => Promise<unknown> | void;
  /** Limit of this component's stop, ms; the total limit holds besides. Default: none of its own. */
  readonly stopLimitMs?: number;
}

export interface StopFailure {
  readonly component: string;
  readonly error: unknown;
}

export interface LifecycleOptions {
  /** Time for all stops together, ms. */
  readonly stopLimitMs: number;
  readonly clock?: Clock;
}

export class Lifecycle {
  readonly #options: LifecycleOptions;
  readonly #clock: Clock;
  readonly #started: Component[] = [];
  #stopping: Promise<readonly StopFailure[]> | undefined;

  constructor(options: LifecycleOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /**
   * Starts the components one after another. If one fails, those before it are stopped first.
   * @throws what the component threw; if stops failed too, an AggregateError with that first
   */
  async start(components: readonly Component[], signal: AbortSignal): Promise<void> {
    for (const component of components) {
      try {
        signal.throwIfAborted();
        await component.start?.(signal);
      } catch (error) {
        const failures = await this.stop();
        if (failures.length === 0) throw error;
        const errors = [error, ...failures.map((failure) => failure.error)];
        throw new AggregateError(errors, `${component.name} did not start, and stopping the others failed`, {
          cause: error,
        });
      }
      if (this.#stopping !== undefined) {
        await this.#stopOne(component, this.#clock.monotonic() + this.#options.stopLimitMs);
        throw new Error(`stopped while starting ${component.name}`);
      }
      this.#started.push(component);
    }
  }

  /** Stops what was started, last first. Never rejects; calling it again answers the same report. */
  stop(): Promise<readonly StopFailure[]> {
    this.#stopping ??= this.#stopAll();
    return this.#stopping;
  }

  /** @throws AggregateError if a stop failed */
  async [Symbol.asyncDispose](): Promise<void> {
    const failures = await this.stop();
    if (failures.length === 0) return;
    const names = failures.map((failure) => failure.component).join(', ');
    throw new AggregateError(
      failures.map((failure) => failure.error),
      `could not stop: ${names}`,
    );
  }

  async #stopAll(): Promise<readonly StopFailure[]> {
    const until = this.#clock.monotonic() + this.#options.stopLimitMs;
    const failures: StopFailure[] = [];
    for (const component of this.#started.toReversed()) {
      const failure = await this.#stopOne(component, until);
      if (failure !== undefined) failures.push(failure);
    }
    return failures;
  }

  async #stopOne(component: Component, until: number): Promise<StopFailure | undefined> {
    const left = Math.max(0, until - this.#clock.monotonic());
    const limitMs = Math.min(left, component.stopLimitMs ?? Infinity);
    try {
      await withTimeout(async (signal) => await component.stop?.(signal), {
        what: `stopping ${component.name}`,
        limitMs,
        clock: this.#clock,
      });
      return undefined;
    } catch (error) {
      return { component: component.name, error };
    }
  }
}

/** True for the error that a stop reports which was given up on. */
export function isStopTimeout(failure: StopFailure): boolean {
  return failure.error instanceof TimeLimitError;
}
