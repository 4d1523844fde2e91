/**
 * Measures how fast the machine is now: beside the measured work, it runs a fixed piece of work in the test's process.
 *
 * Time limits in tests are meant for an idle machine. They are multiplied by the factor by which the piece takes longer
 * now. So a limit holds on a busy machine, and a program that becomes slow still exceeds it.
 */
import assert from 'node:assert/strict';

/** The number of steps in the piece. */
const STEPS = 5_000_000;
/** The time of the piece on an idle core of the machine for which the limits were set, ms. */
const PIECE_MS = 7;
/**
 * The pause after the first piece, ms. Each later pause is longer, up to `LONGEST_PAUSE_MS`. So a short measurement
 * gets many pieces, and a long one takes a fiftieth of a core.
 */
const PAUSE_MS = 80;
const PAUSE_GROWTH = 1.2;
export const LONGEST_PAUSE_MS = 400;
/** The number of runs after which the code is fully optimized. */
const WARM_UP_RUNS = 3;

/** The yardsticks that measure now. All of them use the same pieces. */
const inUse = new Set<Yardstick>();
let timer: NodeJS.Timeout | undefined;
let pauseMs = PAUSE_MS;
let isWarm = false;

/** Measures from its construction until it is disposed. */
export class Yardstick implements Disposable {
  /** The sum of the weights of all pieces: a piece weighs as much as the pause before it was long. */
  #weights = 0;
  #tookMs = 0;
  #worstMs = 0;

  /** @param firstPauseMs - a longer pause takes less CPU time, where no exact factor is needed */
  constructor(firstPauseMs = PAUSE_MS) {
    warmUp();
    pauseMs = inUse.size === 0 ? firstPauseMs : Math.min(pauseMs, firstPauseMs);
    inUse.add(this);
    measure(performance.now());
  }

  /** The factor by which work takes longer than on an idle machine, at least 1: the mean of all pieces so far. */
  get stretch(): number {
    return Math.max(1, this.#tookMs / (this.#weights * PIECE_MS));
  }

  /** The factor of the slowest piece, for the slowest of many measurements. */
  get worst(): number {
    return Math.max(1, this.#worstMs / PIECE_MS);
  }

  [Symbol.dispose](): void {
    inUse.delete(this);
    if (inUse.size === 0) clearTimeout(timer);
  }

  add(tookMs: number, weight: number): void {
    this.#tookMs += tookMs * weight;
    this.#worstMs = Math.max(this.#worstMs, tookMs);
    this.#weights += weight;
  }
}

/** @param due - when the piece should have begun, so that its wait for a processor counts, too */
function measure(due: number): void {
  clearTimeout(timer);
  piece();
  const end = performance.now();
  for (const yardstick of inUse) yardstick.add(end - due, pauseMs);
  pauseMs = Math.min(pauseMs * PAUSE_GROWTH, LONGEST_PAUSE_MS);
  timer = setTimeout(measure, pauseMs, end + pauseMs);
}

function warmUp(): void {
  if (isWarm) return;
  for (let run = 0; run < WARM_UP_RUNS; run += 1) piece();
  isWarm = true;
}

/**
 * The factor of the machine now, for durations in the configuration of a test, such as that of a Lease. Takes half a
 * second.
 */
export async function currentStretch(): Promise<number> {
  using yardstick = new Yardstick();
  await new Promise((resolve) => setTimeout(resolve, 6 * PAUSE_MS));
  return yardstick.stretch;
}

/**
 * Runs `work` with a time limit.
 * @param limitMs - on an idle machine
 * @throws AssertionError if it took longer than the limit times the factor of the machine
 */
export async function within<T>(limitMs: number, what: string, work: () => T | Promise<T>): Promise<T> {
  using yardstick = new Yardstick();
  const from = performance.now();
  const result = await work();
  assertWithin(performance.now() - from, limitMs, what, yardstick.stretch);
  return result;
}

/**
 * Checks a time that was measured while a yardstick ran.
 * @throws AssertionError if it is longer than the limit times `stretch`
 */
export function assertWithin(tookMs: number, limitMs: number, what: string, stretch: number): void {
  const limit = `${limitMs} ms on an idle machine, this one was ${stretch.toFixed(1)} times slower`;
  assert.ok(tookMs <= limitMs * stretch, `${what} took ${tookMs.toFixed(0)} ms; the limit is ${limit}`);
}

/**
 * Runs `work`, which computes without a pause, with a limit of CPU time. Other processes do not count.
 * @param limitMs - on the machine for which the limits were set
 * @throws AssertionError if the work took longer, in proportion to the fixed piece of work
 */
export function withinCpu<T>(limitMs: number, what: string, work: () => T): T {
  warmUp();
  const [unitMs] = cpu(piece);
  const [usedMs, result] = cpu(work);
  assertWithin(usedMs, limitMs, `the computing of ${what}`, Math.max(1, unitMs / PIECE_MS));
  return result;
}

function cpu<T>(work: () => T): [ms: number, result: T] {
  const before = process.threadCpuUsage();
  const result = work();
  const { user, system } = process.threadCpuUsage(before);
  return [(user + system) / 1000, result];
}

/**
 * The fixed piece of work. The compiler cannot leave out a step, because each one needs the result of the step before.
 */
function piece(): number {
  let state = 1;
  for (let step = 0; step < STEPS; step += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
  }
  return state;
}
