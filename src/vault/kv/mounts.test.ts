/** When an answer about a mount is used, with constructed answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { parseJson } from '../json.ts';
import type { VaultCaller } from '../session/session.ts';
import { Mounts } from './mounts.ts';

/** Mounts that are as the last of `answers` says. */
function setUp(mount: object) {
  const answers = [mount];
  let lookUps = 0;
  const caller = {
    addr: 'http://v',
    request: async () => {
      lookUps++;
      return await Promise.resolve({ data: parseJson(JSON.stringify(answers.at(-1))) });
    },
  } as unknown as VaultCaller;
  return { answers, mounts: new Mounts(caller, new ManualClock()), lookUps: () => lookUps };
}

test('a mount is looked up once, and again after it was forgotten', async () => {
  const { answers, mounts, lookUps } = setUp({ path: 'kv/', type: 'kv', options: { version: '1' } });
  const entry = await mounts.resolve('kv/app');
  answers.push({ path: 'kv/', type: 'kv', options: { version: '2' } });
  assert.deepEqual([(await mounts.resolve('kv/other')).mount.kind, lookUps()], ['kv1', 1]);
  mounts.forget(entry);
  assert.deepEqual([(await mounts.resolve('kv/app')).mount.kind, lookUps()], ['kv2', 2]);
});

test('the answer for a path with a namespace is relative to it and not used', async () => {
  const { mounts } = setUp({ path: 'kv/', type: 'kv', options: { version: '2' } });
  const entry = await mounts.resolve('team/kv/app');
  assert.deepEqual([entry.known, entry.dataPath], [false, 'team/kv/app']);
});
