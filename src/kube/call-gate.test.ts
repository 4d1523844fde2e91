import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fixRandom } from '../../test/support/fixed-random.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { CallGate } from './call-gate.ts';
import { CallLimit } from './call-limit.ts';
import { ApiError, ConnectionError } from './errors.ts';

const CALL = { cluster: 'local', method: 'GET', path: '/x' };

function setUp(slots: number, maxWaitMs = 30_000) {
  const clock = new ManualClock();
  fixRandom(1);
  const gate = new CallGate({ slots, maxWaitMs, clock });
  const limit = (ms = 10_000, signal?: AbortSignal): CallLimit => new CallLimit(CALL, ms, signal, clock);
  const throttled = (ms: number): ApiError =>
    new ApiError(CALL, 429, { reason: 'TooManyRequests', message: '', causes: [], retryAfterMs: ms });
  return { clock, gate, limit, throttled };
}

/** Shows the state of a call: `waiting`, `in` (admitted) or `refused`. */
function watched(promise: Promise<void> | undefined): { state: string; error?: unknown } {
  const seen: { state: string; error?: unknown } = { state: promise === undefined ? 'in' : 'waiting' };
  promise?.then(
    () => (seen.state = 'in'),
    (error: unknown) => Object.assign(seen, { state: 'refused', error }),
  );
  return seen;
}

test('calls get slots in the order of arrival, and an aborted call gets none', async () => {
  const { clock, gate, limit } = setUp(2);
  const abort = new AbortController();
  const calls = [limit(), limit(), limit(10_000, abort.signal), limit(), limit()];
  const turns = calls.map((call) => watched(gate.enter(call)));
  assert.deepEqual(
    turns.map((turn) => turn.state),
    ['in', 'in', 'waiting', 'waiting', 'waiting'],
  );
  abort.abort(new Error('no longer needed'));
  gate.leave();
  await clock.advance(0);
  assert.deepEqual(
    turns.map((turn) => turn.state),
    ['in', 'in', 'refused', 'in', 'waiting'],
  );
  assert.match(String(turns[2]?.error), /no longer needed/u);
});

test('the time limit of a call includes its wait for a slot, and the error names this wait', async () => {
  const { clock, gate, limit } = setUp(1);
  assert.equal(gate.enter(limit()), undefined);
  const late = watched(gate.enter(limit(500)));
  await clock.advance(500);
  assert.ok(late.error instanceof ConnectionError);
  assert.equal(late.error.code, 'ETIMEDOUT');
  assert.match(late.error.message, /within 500 ms \(while waiting for a free connection\)/u);
});

test('during a Retry-After, no call and no stream is admitted', async () => {
  const { clock, gate, limit, throttled } = setUp(1);
  assert.equal(gate.enter(limit()), undefined);
  const waiting = watched(gate.enter(limit()));
  gate.delay(throttled(2000));
  gate.leave();
  const fresh = watched(gate.enter(limit()));
  const stream = watched(gate.enterStream(limit()));
  await clock.advance(1999);
  assert.deepEqual([waiting.state, fresh.state, stream.state], ['waiting', 'waiting', 'waiting']);
  await clock.advance(1);
  assert.deepEqual([waiting.state, fresh.state, stream.state], ['in', 'waiting', 'in']);
  gate.leave();
  await clock.advance(0);
  assert.equal(fresh.state, 'in');
});

test('a Retry-After above the maximum is limited to it, and a later, shorter Retry-After does not shorten the wait', async () => {
  const { clock, gate, limit, throttled } = setUp(1, 3000);
  gate.delay(throttled(3_600_000));
  gate.delay(throttled(10));
  const waiting = watched(gate.enterStream(limit(60_000)));
  await clock.advance(2999);
  assert.equal(waiting.state, 'waiting');
  await clock.advance(1);
  assert.equal(waiting.state, 'in');
  assert.equal(clock.pendingTimers, 1, 'only the time limit of the stream');
  gate.delay(throttled(3000));
  const late = watched(gate.enter(limit(2000)));
  await clock.advance(2000);
  assert.match(String(late.error), /while waiting for the end of a Retry-After/u);
});

test('after a call without an answer, one call at a time is tried at growing intervals, before any stream, and an answer admits all', async () => {
  const { clock, gate, limit } = setUp(4);
  assert.equal(gate.enter(limit(60_000)), undefined);
  gate.recordNoAnswer();
  gate.leave();
  const stream = watched(gate.enterStream(limit(60_000)));
  const calls = Array.from({ length: 6 }, () => watched(gate.enter(limit(60_000))));
  const tried: number[] = [];
  for (let ms = 0; ms < 3000; ms += 100) {
    await clock.advance(100);
    while (calls.filter(({ state }) => state === 'in').length > tried.length) {
      tried.push(ms + 100);
      gate.recordNoAnswer();
      gate.leave();
    }
  }
  assert.deepEqual(tried, [200, 600, 1400, 3000]);
  assert.equal(stream.state, 'waiting');
  gate.recordAnswer();
  await clock.advance(0);
  assert.deepEqual(
    [stream.state, ...calls.map(({ state }) => state)],
    Array.from({ length: 7 }, () => 'in'),
  );
});

test('if a Retry-After begins before the next try after an outage, a call makes this try when the Retry-After is over', async () => {
  const { clock, gate, limit, throttled } = setUp(4);
  gate.recordNoAnswer();
  await clock.advance(200);
  gate.delay(throttled(1000));
  const stream = watched(gate.enterStream(limit()));
  const call = watched(gate.enter(limit()));
  await clock.advance(999);
  assert.deepEqual([stream.state, call.state], ['waiting', 'waiting']);
  await clock.advance(1);
  assert.deepEqual([stream.state, call.state], ['waiting', 'in']);
  await clock.advance(400);
  assert.deepEqual([stream.state, call.state], ['in', 'in']);
  gate.close();
});
