/**
 * The clock as an interface, so that tests of code that waits can use a manual clock. `now` is the wall clock, for
 * statuses and Leases; it jumps when the machine's clock is set. `monotonic` is for durations; it never goes back.
 */

/** A call that is scheduled for later. To cancel it twice, or after it ran, does nothing. */
export interface Timer extends Disposable {
  cancel(): void;
}

interface TimerOptions {
  /** `true`: the timer alone does not keep the process alive. Default `false`. */
  readonly unref?: boolean;
}

export interface Clock {
  /** Wall clock, ms since 1970. */
  now(): number;
  /** Ms since an arbitrary start; never goes back. */
  monotonic(): number;
  /** Calls `run` one time, `ms` from now (a negative `ms` counts as 0; no upper limit). */
  setTimeout(run: () => void, ms: number, options?: TimerOptions): Timer;
}

/** Longest delay of Node's timers. Node treats a longer delay as 1 ms, so a longer wait needs several timers. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

function startTimer(run: () => void, ms: number, { unref = false }: TimerOptions = {}): Timer {
  let handle: NodeJS.Timeout;
  const arm = (ms: number): void => {
    const rest = ms - LONGEST_TIMEOUT_MS;
    handle = rest > 0 ? setTimeout(arm, LONGEST_TIMEOUT_MS, rest) : setTimeout(run, ms);
    if (unref) handle.unref();
  };
  const cancel = (): void => clearTimeout(handle);
  arm(ms);
  return { cancel, [Symbol.dispose]: cancel };
}

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimeout: startTimer,
};
