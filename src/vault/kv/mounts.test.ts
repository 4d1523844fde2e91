/** Tests which of Vault's answers about mounts are used, and for how long. The answers are constructed. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';

import { ManualClock } from '../../../test/support/manual-clock.ts';
import { parseJson } from '../json.ts';
import type { VaultCaller } from '../session/session.ts';
import { Mounts } from './mounts.ts';

/** Makes `Mounts` whose lookups get the last element of `answers`. */
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

test('several paths of a mount need one lookup; after Mounts.forget() the mount is looked up again', async () => {
  const { answers, mounts, lookUps } = setUp({ path: 'kv/', type: 'kv', options: { version: '1' } });
  const entry = await mounts.resolve('kv/app');
  answers.push({ path: 'kv/', type: 'kv', options: { version: '2' } });
  assert.deepEqual([(await mounts.resolve('kv/other')).mount.kind, lookUps()], ['kv1', 1]);
  mounts.forget(entry);
  assert.deepEqual([(await mounts.resolve('kv/app')).mount.kind, lookUps()], ['kv2', 2]);
});

test('a mount is unchanged only if Vault has the same one under its path, and not one that was made again', async () => {
  const mount = { path: 'kv/', type: 'kv', options: { version: '1' }, uuid: 'a' };
  const { answers, mounts } = setUp(mount);
  const entry = await mounts.resolve('kv/app');
  const isUnchanged = async (now: object): Promise<boolean> => {
    answers.push(now);
    return await mounts.isUnchanged(entry);
  };
  assert.equal(await isUnchanged(mount), true);
  for (const other of [{ uuid: 'b' }, { options: { version: '2' } }, { path: 'kv/app/' }])
    assert.equal(await isUnchanged({ ...mount, ...other }), false, JSON.stringify(other));
});

test('if the path begins with a namespace of Vault and the answer names the mount without it, the answer is not used', async () => {
  const { mounts } = setUp({ path: 'kv/', type: 'kv', options: { version: '2' } });
  const entry = await mounts.resolve('team/kv/app');
  assert.deepEqual([entry.known, entry.dataPath], [false, 'team/kv/app']);
});

test('if Vault answers 200 without a mount, the path is not used to guess the mount', async () => {
  const { mounts } = setUp({ data: 'text' });
  await assert.rejects(mounts.resolve('secret/data/app'), { kind: 'badResponse', message: /names no mount/ });
});

describe('a remembered mount', () => {
  const clock = new ManualClock();
  const lookUps: string[] = [];
  /** Path of each mount and its KV version. The lookup of an entry returns the mount with which its path begins. */
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

  it('if the mount kv/ is known, paths in kv2/ and team/kv/ still get their own mounts', async () => {
    assert.deepEqual(await resolved('kv/app'), ['kv/ kv1', 'kv/app']);
    assert.deepEqual(await resolved('kv2/app'), ['kv2/ kv2', 'kv2/data/app']);
    assert.deepEqual(await resolved('team/kv/app'), ['team/kv/ kv2', 'team/kv/data/app']);
  });

  it('a known mount is looked up again after 24 h, so that a change of its KV version is found', async () => {
    lookUps.length = 0;
    await mounts.resolve('kv/other');
    assert.deepEqual(lookUps, []);
    mounted['kv/'] = '2';
    await clock.advance(24 * 3600 * 1000);
    assert.deepEqual(await resolved('kv/other'), ['kv/ kv2', 'kv/data/other']);
  });
});
