/**
 * Keeps long work from blocking the event loop. Long work calls `await pause()` between its steps. All such work shares
 * one slice of time in each turn of the event loop: when it is used up, the work waits for a later turn. So probes,
 * watches and short work wait for one slice and one step at most, however much long work there is.
 */

/** How long all long work together may take in one turn of the event loop, ms. */
const SLICE_MS = 4;

/** When the slice of this turn is used up, monotonic ms; `undefined`: it has not begun. */
let end: number | undefined;
/** Work that waits for a slice: first in, first out, so that no work takes every slice. */
const waiting: (() => void)[] = [];
let isArmed = false;

/** Resolves when the work may go on: at once, or if the slice is used up, in a later turn of the event loop. */
export function pause(): Promise<void> | undefined {
  const now = performance.now();
  if (end === undefined) {
    end = now + SLICE_MS;
    arm();
  }
  if (now < end) return undefined;
  return new Promise((resolve) => {
    waiting.push(resolve);
    arm();
  });
}

/** Begins a new slice in the next turn of the event loop. The work that has waited longest gets it first. */
function arm(): void {
  if (isArmed) return;
  isArmed = true;
  setImmediate(() => {
    isArmed = false;
    end = undefined;
    waiting.shift()?.();
    if (waiting.length > 0) arm();
  });
}
