import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SingleFlight } from './single-flight.ts';

test('concurrent calls of SingleFlight with the same key share one run; calls with another key and later calls do not', async () => {
  const flights = new SingleFlight<number>();
  let runs = 0;
  const gate = Promise.withResolvers<void>();
  const work = async (): Promise<number> => {
    const run = ++runs;
    await gate.promise;
    return run;
  };
  const calls = [flights.run('a', work), flights.run('a', work), flights.run('b', work)];
  gate.resolve();
  assert.deepEqual(await Promise.all(calls), [1, 1, 2]);
  assert.equal(await flights.run('a', work), 3);
});

test('if shared work fails, every caller gets the error, and the next call starts new work', async () => {
  const flights = new SingleFlight<number>();
  const fail = (): Promise<number> => {
    throw new Error('sealed');
  };
  const results = await Promise.allSettled([flights.run('a', fail), flights.run('a', fail)]);
  assert.deepEqual(
    results.map((result) => result.status === 'rejected' && String(result.reason)),
    ['Error: sealed', 'Error: sealed'],
  );
  assert.equal(await flights.run('a', async () => 1), 1);
});

test('if a caller aborts, shared work goes on for the other callers; if the last caller aborts, the work is aborted', async () => {
  const flights = new SingleFlight<string>();
  const seen: AbortSignal[] = [];
  const gates: PromiseWithResolvers<string>[] = [];
  const work = (signal: AbortSignal): Promise<string> => {
    seen.push(signal);
    const gate = Promise.withResolvers<string>();
    gates.push(gate);
    return gate.promise;
  };
  const [first, second] = [new AbortController(), new AbortController()];
  const one = flights.run('a', work, first.signal);
  const two = flights.run('a', work, second.signal);
  first.abort(new Error('reason one'));
  await assert.rejects(one, { name: 'AbortError', message: 'aborted while waiting for a' });
  assert.equal(seen[0]?.aborted, false);
  second.abort();
  await assert.rejects(two, { name: 'AbortError' });
  assert.equal(seen[0]?.aborted, true);
  // A new caller does not join the aborted flight, whose end does not affect the new flight.
  const three = flights.run('a', work);
  await Promise.resolve();
  gates[0]?.reject(new Error('aborted'));
  gates[1]?.resolve('fresh');
  assert.equal(await three, 'fresh');
  assert.equal(seen.length, 2);
});

test('if the signal of a call is already aborted, SingleFlight starts no work', async () => {
  const flights = new SingleFlight<number>();
  await assert.rejects(
    flights.run('a', () => assert.fail('started'), AbortSignal.abort()),
    { name: 'AbortError' },
  );
});
