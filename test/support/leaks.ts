/** Makes a test file fail that leaves sockets, servers, timers or child processes behind. */
import assert from 'node:assert/strict';
import { after } from 'node:test';

/** Handles that end by themselves in the same turn of the event loop, and the pipes of the test runner. */
const HARMLESS = new Set([
  'Immediate',
  'TickObject',
  'FSReqPromise',
  'FSReqCallback',
  'CloseReq',
  'PipeWrap',
  'TTYWrap',
]);

const GRACE_MS = 15_000;

/**
 * Adds a hook that fails if the test file leaves handles behind. Call it at the top level of the file, below its own
 * hooks: hooks run in the order of their registration, and handles that a later hook closes would count as leaks.
 */
export function failOnLeaks(): void {
  const atStart = activeResources();
  after(() => assertNoLeaks(atStart));
}

/** The number of handles of each type that keep the process alive. */
export function activeResources(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const type of process.getActiveResourcesInfo()) {
    if (!HARMLESS.has(type)) counts.set(type, (counts.get(type) ?? 0) + 1);
  }
  return counts;
}

/**
 * Waits a short time for handles that are closing.
 * @throws AssertionError that names the handles that `baseline` does not have
 */
export async function assertNoLeaks(baseline: ReadonlyMap<string, number>, graceMs = GRACE_MS): Promise<void> {
  const deadline = performance.now() + graceMs;
  let leaked = leakedBeyond(baseline);
  while (Object.keys(leaked).length > 0 && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    leaked = leakedBeyond(baseline);
  }
  assert.deepEqual(leaked, {}, 'leaked handles keep the process alive');
}

function leakedBeyond(baseline: ReadonlyMap<string, number>): Record<string, number> {
  const leaked: Record<string, number> = {};
  for (const [type, count] of activeResources()) {
    const more = count - (baseline.get(type) ?? 0);
    if (more > 0) leaked[type] = more;
  }
  return leaked;
}
