/**
 * Two paths may name one entry of Vault. Mirrors must notice it, so that they do not overwrite each other and make no
 * cycle.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { HOME, mirrorPath, OWNED_BY } from '../mirrors/support.ts';
import { policy, VaultScene } from './support.ts';

const SETTLE_MS = 2500;

let scene: VaultScene;
before(async () => {
  scene = await VaultScene.open();
  await scene.mirrors.namespaces('target');
  await scene.tokenSecret(
    'all',
    policy({ 'secret/*': ['create', 'read', 'update'], 'kv1/*': ['create', 'read', 'update'] }),
  );
  await scene.vault.request('POST', 'sys/mounts/kv1', { type: 'kv', options: { version: '1' } });
  await scene.mirrors.operator();
});
after(() => scene.close());

const block = (path: string, more: Json = {}): Json => scene.block(path, 'all', more);

async function version(path: string): Promise<number | undefined> {
  return (await scene.entry(path))?.metadata.version;
}

async function assertNoNewVersions(path: string): Promise<void> {
  const before = await version(path);
  // Longer than the time of two polls.
  await staysTrue(async () => (await version(path)) === before, SETTLE_MS, `${path} is not written`);
}

describe('two mirrors into one entry of KV 2, with and without data/', () => {
  it('of two mirrors into one entry of KV 2, with and without data/, the second reports Conflict, and writes it when the first is deleted', async () => {
    const { mirrors } = scene;
    await mirrors.secret(HOME, 'one', { a: '1' });
    await mirrors.secret(HOME, 'two', { b: '2' });
    const { metadata } = await scene.toVault('one', { name: 'one' }, block('secret/data/both'));
    await scene.holds('secret/data/both', { a: '1' });
    // Mirrors that are created in the same second may come in either order, so the second one waits for the next
    // second.
    await waitFor(() => Date.now() >= Date.parse(metadata.creationTimestamp) + 1000);
    await scene.toVault('two', { name: 'two' }, block('secret/both'));
    await mirrors.ready('two', 'Conflict', /SecretMirror default\/one/);
    await mirrors.ready('one', 'Synced');
    await assertNoNewVersions('secret/data/both');
    assert.equal(await version('secret/data/both'), 1);
    await mirrors.api.delete(mirrorPath('one'));
    await scene.holds('secret/data/both', { b: '2' });
    await mirrors.ready('two', 'Synced');
    await assertNoNewVersions('secret/data/both');
  });

  it('of two mirrors into one entry, with 127.0.0.1 and localhost as the server, the second reports Conflict', async () => {
    const { mirrors } = scene;
    const addr = scene.vault.addr.replace('127.0.0.1', 'localhost');
    assert.notEqual(addr, scene.vault.addr);
    await mirrors.secret(HOME, 'here', { a: '1' });
    await mirrors.secret(HOME, 'there', { b: '2' });
    const { metadata } = await scene.toVault('here', { name: 'here' }, block('secret/data/names'));
    await scene.holds('secret/data/names', { a: '1' });
    await waitFor(() => Date.now() >= Date.parse(metadata.creationTimestamp) + 1000);
    await scene.toVault('there', { name: 'there' }, block('secret/data/names', { addr }));
    await mirrors.ready('there', 'Conflict', /SecretMirror default\/here/);
    await assertNoNewVersions('secret/data/names');
  });

  it('two mirrors into one path of KV 1, with and without data/, write two entries', async () => {
    const { mirrors } = scene;
    await mirrors.secret(HOME, 'old-one', { a: '1' });
    await mirrors.secret(HOME, 'old-two', { b: '2' });
    await scene.toVault('old-one', { name: 'old-one' }, block('kv1/data/both'));
    await scene.toVault('old-two', { name: 'old-two' }, block('kv1/both'));
    await mirrors.ready('old-one', 'Synced');
    await mirrors.ready('old-two', 'Synced');
  });
});

describe('mirrors that lead back to an entry', () => {
  for (const [title, back] of [
    ['with the same path', 'secret/data/back'],
    ['with another path', 'secret/return'],
  ] as const) {
    it(`two mirrors, from an entry and back into an entry ${title}, write nothing and report Cycle; one of them alone works`, async () => {
      const { mirrors } = scene;
      const name = back.slice(back.lastIndexOf('/') + 1);
      const path = `secret/data/${name}`;
      await mirrors.namespaces(`${name}-home`);
      await scene.put(path, { a: '1' });
      await scene.fromVault(name, block(path), [`${name}-home`]);
      await mirrors.copied(`${name}-home`, name, { a: '1' });
      const vault = block(back, { encoding: 'base64' });
      const token = await mirrors.find(HOME, 'all');
      await mirrors.api.create({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: 'all', namespace: `${name}-home` },
        data: token.data,
      });
      const metadata = { name, namespace: `${name}-home` };
      const spec = { pollPeriodSeconds: 1, source: { name }, destination: { type: 'vault', vault } };
      await mirrors.api.create({ apiVersion: 'mirrors.kts.studio/v1alpha2', kind: 'SecretMirror', metadata, spec });
      const rules = [`SecretMirror default/${name}`, `SecretMirror ${name}-home/${name}`].toSorted();
      const both = new RegExp(rules.join(' → '));
      await mirrors.ready(name, 'Cycle', both);
      await mirrors.ready(name, 'Cycle', both, `${name}-home`);
      await assertNoNewVersions(path);
      assert.ok(((await version(path)) ?? 0) <= 2, 'it was written again and again');
      await mirrors.api.delete(mirrorPath(name, `${name}-home`));
      await scene.put(path, { a: 'new' });
      await mirrors.copied(`${name}-home`, name, { a: 'new' });
      await mirrors.ready(name, 'Synced');
      assert.equal((await mirrors.find(`${name}-home`, name)).metadata.annotations[OWNED_BY], `default/${name}`);
    });
  }

  it('a mirror from an entry into the same entry by another path reports Cycle', async () => {
    const { mirrors } = scene;
    await scene.put('secret/data/self', { a: '1' });
    const source = { type: 'vault', vault: block('secret/data/self') };
    await scene.toVault('self', source, block('secret/self', { encoding: 'base64' }));
    await mirrors.ready('self', 'Cycle', /SecretMirror default\/self$/);
    await assertNoNewVersions('secret/data/self');
    assert.ok(((await version('secret/data/self')) ?? 0) <= 2);
  });

  it('mirrors between two entries of Vault in both directions report Cycle, and a chain of mirrors does not', async () => {
    const { mirrors } = scene;
    await scene.put('secret/data/left', { a: '1' });
    const from = (path: string): Json => ({ type: 'vault', vault: block(path) });
    await scene.toVault('to-right', from('secret/left'), block('secret/right'));
    await scene.toVault('to-end', from('secret/data/right'), block('secret/end'));
    await scene.holds('secret/data/end', { a: '1' });
    await mirrors.ready('to-right', 'Synced');
    await mirrors.ready('to-end', 'Synced');
    await scene.toVault('to-left', from('secret/data/right'), block('secret/data/left', { encoding: 'base64' }));
    await mirrors.ready('to-left', 'Cycle', /SecretMirror default\/to-left → SecretMirror default\/to-right/);
    await mirrors.ready('to-right', 'Cycle');
    await mirrors.ready('to-end', 'Synced');
    await assertNoNewVersions('secret/data/left');
    await assertNoNewVersions('secret/data/right');
  });
});

failOnLeaks();
