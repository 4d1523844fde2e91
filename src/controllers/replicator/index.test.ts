import assert from 'node:assert/strict';
import { it } from 'node:test';

import { replicatorHealth } from './index.ts';

it('/healthz of the replicator answers as in the original: 503 while a kind is not listed; it is also 503 if a worker is stuck', () => {
  const answer = (...args: Parameters<typeof replicatorHealth>): readonly [number, unknown] => {
    const { status, body } = replicatorHealth(...args);
    return [status, JSON.parse(body)];
  };
  assert.deepEqual(answer([]), [200, { notReady: [] }]);
  assert.deepEqual(answer(['secret']), [503, { notReady: ['*replicate.ObjectReplicator'] }]);
  const stuck = ['workers: a worker of targets has been busy for 301 s'];
  assert.deepEqual(answer([], stuck), [503, { notReady: [], stuck }]);
});
