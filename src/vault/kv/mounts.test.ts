/** Which answers about mounts are used, and for how long, with constructed answers. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { parseJson } from '../json.ts';
import type { VaultCaller } from '../session/session.ts';
import { Mounts } from './mounts.ts';

/** Mounts whose lookups get the last of `answers`. */
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

test('an answer that names the mount without the namespace in the path is not used', async () => {
  const { mounts } = setUp({ path: 'kv/', type: 'kv', options: { version: '2' } });
  const entry = await mounts.resolve('team/kv/app');
  assert.deepEqual([entry.known, entry.dataPath], [false, 'team/kv/app']);
});

describe('a remembered mount', () => {
  const clock = new ManualClock();
  const lookUps: string[] = [];
  /** The KV version of each mount. A lookup gets the mount whose path the entry begins with. */
  const mounted: Record<string, string> = { 'kv/': '1', 'kv2/': '2', 'team/kv/': '2' };
  const caller = {
    addr: 'http://v',
    request: async ({ path }: { readonly path: string }) => {
      lookUps.push(path);
      const entry = path.replace('sys/internal/ui/mounts/', '');
      const [mount, version] = Object.entries(mounted).find(([key]) => `${entry}/`.startsWith(key)) ?? [];
      const answer = { path: mount, type: 'kv', options: { version } };
      return await Promise.resolve({ data: parseJson(JSON.stringify(answer)) });
    },
  } as unknown as VaultCaller;
  const mounts = new Mounts(caller, clock);
  const resolved = async (path: string): Promise<readonly [string, string]> => {
    const { mount, dataPath } = await mounts.resolve(path);
    return [`${mount.path} ${mount.kind}`, dataPath];
  };

  it('a remembered mount kv/ is not used for paths in kv2/ or team/kv/', async () => {
    assert.deepEqual(await resolved('kv/app'), ['kv/ kv1', 'kv/app']);
    assert.deepEqual(await resolved('kv2/app'), ['kv2/ kv2', 'kv2/data/app']);
    assert.deepEqual(await resolved('team/kv/app'), ['team/kv/ kv2', 'team/kv/data/app']);
  });

  it('a remembered mount is looked up again after a day', async () => {
    lookUps.length = 0;
    await mounts.resolve('kv/other');
    assert.deepEqual(lookUps, []);
    mounted['kv/'] = '2';
    await clock.advance(24 * 3600 * 1000);
    assert.deepEqual(await resolved('kv/other'), ['kv/ kv2', 'kv/data/other']);
  });
});
