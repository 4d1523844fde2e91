import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { ApiError } from '../errors.ts';
import { afterFailure, type Watching } from './watch-state.ts';
import { StalledWatchError, WatchStream } from './watch-stream.ts';

const CALL = { cluster: 'test', method: 'GET', path: '/api/v1/things' };
const NOW = 5000;
const apiError = (code: number, reason: string, message = 'no'): ApiError =>
  new ApiError(CALL, code, { reason, message, causes: [] });

/** The state of a stream that was opened at 0 and received its last byte at `lastByteAt` (ms). */
async function watching(lastByteAt: number): Promise<Watching> {
  const clock = new ManualClock();
  const stream = new WatchStream(
    {
      chunks: (async function* () {
        yield Buffer.from('\n');
      })(),
      close: () => undefined,
    },
    clock,
  );
  await clock.advance(lastByteAt);
  if (lastByteAt > 0) await stream.next(() => undefined);
  stream.close();
  return { at: 'watching', stream, resourceVersion: '7' };
}

for (const [title, error, next] of [
  ['a broken connection', new Error('reset'), 'listed'],
  ['an event with a 429', apiError(429, 'TooManyRequests'), 'listed'],
  ['an event with a 500', apiError(500, 'InternalError'), 'unlisted'],
  ['a silent stream that has brought something', new StalledWatchError('no byte'), 'listed'],
  ['a 410', apiError(410, 'Expired'), 'unlisted'],
  ['a 404', apiError(404, 'NotFound'), 'unlisted'],
  ['a version that does not exist yet', apiError(504, 'Timeout', 'Too large resource version: 7'), 'unlisted'],
] as const) {
  test(`after ${title}, the next state of a watcher is ${next}`, async () => {
    const state = afterFailure(await watching(1000), error, NOW);
    assert.equal(state.at, next);
    assert.equal(state.at === 'listed' ? state.resourceVersion : state.newest, '7');
    assert.equal(state.since, error instanceof StalledWatchError ? 1000 : NOW);
  });
}

test('after a stream without any byte, everything is listed again; after a stream that cannot be opened, nothing', async () => {
  assert.equal(afterFailure(await watching(0), new StalledWatchError('no byte'), NOW).at, 'unlisted');
  const listed = { at: 'listed', resourceVersion: '7', since: 3 } as const;
  assert.equal(afterFailure(listed, apiError(500, 'InternalError'), NOW).at, 'listed');
});

test('a failed list keeps the last known version and the time when the last stream ended', () => {
  const state = afterFailure({ at: 'unlisted', newest: '9', since: 3 }, apiError(410, 'Expired', 'old'), NOW);
  assert.deepEqual({ ...state, error: '' }, { at: 'unlisted', newest: '9', since: 3, error: '' });
});
