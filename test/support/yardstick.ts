/**
 * Measures how fast the machine is at this moment: in the test's process, next to the measured work, it runs a piece of
 * work that is always the same.
 *
 * Time limits in tests are meant for an idle machine. They are multiplied by a factor: how many times longer the piece
 * takes than on an idle machine. So a test passes on a busy machine, but fails if the program has become slower.
 */
import assert from 'node:assert/strict';

/** The number of steps in the piece. */
const STEPS = 5_000_000;
/** How long the piece takes on an idle core of the machine for which the limits were set, ms. */
const PIECE_MS = 7;
/**
 * The pause after the first piece, ms. Each further pause is longer, up to `LONGEST_PAUSE_MS`. So a short measurement
 * has several pieces, and in a long one the pieces need less than a hundredth of a core.
 */
const PAUSE_MS = 80;
const PAUSE_GROWTH = 1.25;
export const LONGEST_PAUSE_MS = 1000;
/** After this many runs of the piece, V8 has optimized its code. */
const WARM_UP_RUNS = 3;

/** The yardsticks that are measuring now. They share the pieces. */
const inUse = new Set<Yardstick>();
let timer: NodeJS.Timeout | undefined;
let pauseMs = PAUSE_MS;
let isWarm = false;

/** Measures from its construction until it is disposed. */
export class Yardstick implements Disposable {
  /** Sum of the weights of all pieces. The weight of a piece is the length of the pause before it. */
  #weights = 0;
  #tookMs = 0;
  #worstMs = 0;

  /** @param firstPauseMs - a longer pause needs less CPU time, but makes the factor less exact */
  constructor(firstPauseMs = PAUSE_MS) {
    warmUp();
    pauseMs = inUse.size === 0 ? firstPauseMs : Math.min(pauseMs, firstPauseMs);
    inUse.add(this);
    measure(performance.now());
  }

  /** How many times longer work takes than on an idle machine, at least 1. It is the mean of all pieces until now. */
  get stretch(): number {
    return Math.max(1, this.#tookMs / (this.#weights * PIECE_MS));
  }

  /** The factor of the slowest piece. For a test that checks the slowest of many measurements. */
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

/** @param due - when the piece should have begun. The time that it waited for a processor counts, too */
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
 * The factor of the machine now. For durations in a test's configuration, such as that of a Lease. Takes 0.5 s.
 */
export async function currentStretch(): Promise<number> {
  using yardstick = new Yardstick();
  await new Promise((resolve) => setTimeout(resolve, 6 * PAUSE_MS));
  return yardstick.stretch;
}

/**
 * Runs `work` and checks how long it takes.
 * @param limitMs - the limit on an idle machine
 * @throws AssertionError if it took longer than this limit times the factor of the machine
 */
export async function within<T>(limitMs: number, what: string, work: () => T | Promise<T>): Promise<T> {
  using yardstick = new Yardstick();
  const from = performance.now();
  const result = await work();
  assertWithin(performance.now() - from, limitMs, what, yardstick.stretch);
  return result;
}

/**
 * Checks a time that was measured while a yardstick was running.
 * @throws AssertionError if the time is longer than the limit times `stretch`
 */
export function assertWithin(tookMs: number, limitMs: number, what: string, stretch: number): void {
  const limit = `${limitMs} ms on an idle machine, this one was ${stretch.toFixed(1)} times slower`;
  assert.ok(tookMs <= limitMs * stretch, `${what} took ${tookMs.toFixed(0)} ms; the limit is ${limit}`);
}

/**
 * Runs `work`, which computes without waiting, and checks its CPU time. CPU time of other processes does not count.
 * @param limitMs - the limit on the machine for which the limits were set
 * @throws AssertionError if the work took more CPU time. The limit grows with the CPU time of the piece on this machine
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
 * The piece of work whose time a yardstick measures. Each step needs the result of the step before, so the compiler cannot leave out a step.
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
