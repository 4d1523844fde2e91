/** A test file that leaves sockets, servers, timers or child processes behind fails. */
import assert from 'node:assert/strict';
import { after } from 'node:test';

/** They end by themselves in the same turn, or are the pipes of the test runner. */
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
 * Call it at the top level of a test file, below its own hooks. Hooks run in the order of their registration, and handles that
 * a later hook closes would count as leaks.
 */
export function failOnLeaks(): void {
  const atStart = activeResources();
  after(() => assertNoLeaks(atStart));
}

/** The handles that keep the process alive, by type and number. */
export function activeResources(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const type of process.getActiveResourcesInfo()) {
    if (!HARMLESS.has(type)) counts.set(type, (counts.get(type) ?? 0) + 1);
  }
  return counts;
}

/** Waits a short time for handles that are closing. @throws AssertionError that names the handles beyond `baseline`. */
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
