import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fixRandom } from '../../../../test/support/fixed-random.ts';
import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { ManualWorker } from '../../../../test/support/manual-worker.ts';
import { Lanes } from './queue.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';

const RULE: RuleKey = asKey('generator:default/postgres');

test('if a store names another server during a run, its rule runs again in the queue of the new server after this run, and no more in the old one', async () => {
  const clock = new ManualClock();
  fixRandom(0);
  const work = new ManualWorker();
  const errors: unknown[] = [];
  const unanswered = new Error('the server a does not answer');
  let server = 'a';
  const lanes = new Lanes({
    name: 'generator',
    clock,
    onError: (_, error) => errors.push(error),
    laneOf: () => server,
  });
  lanes.start(work.worker);
  lanes.add(RULE);
  await settled();
  server = 'b';
  lanes.add(RULE);
  // `ManualWorker` fails the test if the rule runs twice at the same time.
  await settled();
  assert.deepEqual(work.ran, [RULE]);
  work.fail(RULE, unanswered);
  await clock.advance(1000);
  await settled();
  assert.deepEqual([work.ran.length, work.open.size], [2, 1]);
  work.end(RULE);
  await clock.advance(60_000);
  await settled();
  assert.equal(work.ran.length, 2);
  assert.deepEqual(errors, [unanswered]);
  await lanes.stop(0);
});

async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}
