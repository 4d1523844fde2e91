/** Makes a test file fail if sockets, servers, timers or child processes are left at its end. */
import assert from 'node:assert/strict';
import { after } from 'node:test';

/**
 * Handles that are no leaks: they end by themselves in the same turn of the event loop, or belong to the test runner.
 */
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
 * Adds a hook that fails if handles are left at the end of the test file. Call it at the top level of the file, below
 * the file's own hooks. Hooks run in the order of their calls, and handles that a later hook closes would count as
 * left.
 */
export function failOnLeaks(): void {
  const atStart = activeResources();
  after(() => assertNoLeaks(atStart));
}

/** How many handles of each type keep the process alive. */
export function activeResources(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const type of process.getActiveResourcesInfo()) {
    if (!HARMLESS.has(type)) counts.set(type, (counts.get(type) ?? 0) + 1);
  }
  return counts;
}

/**
 * Fails if there are more handles than in `baseline`. First waits a short time for handles that are being closed.
 * @throws AssertionError that names the types of the handles that are left
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
