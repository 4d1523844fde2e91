/**
 * Two paths may name the same entry of Vault. Keyferry must notice it, so that two mirrors do not overwrite each other
 * or copy in a cycle.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import { failOnLeaks } from '../../../support/leaks.ts';
import { staysTrue, waitFor } from '../../../support/wait-for.ts';
import { HOME, mirrorPath, OWNED_BY } from '../../mirrors/support.ts';
import { policy, VaultScene } from '../support.ts';

const SETTLE_MS = 2500;

let scene: VaultScene;
before(async () => {
  scene = await VaultScene.open();
  await scene.mirrors.namespaces('target');
  await scene.tokenSecret('all', policy({ 'secret/*': ['create', 'read', 'update'] }));
  await scene.mirrors.operator();
});
after(() => scene.close());

const block = (path: string, more: Json = {}): Json => scene.block(path, 'all', more);

async function version(path: string): Promise<number | undefined> {
  return (await scene.entry(path))?.metadata.version;
}

async function assertNoNewVersions(path: string): Promise<void> {
  const before = await version(path);
  // SETTLE_MS is longer than two polls.
  await staysTrue(async () => (await version(path)) === before, SETTLE_MS, `${path} is not written`);
}

describe('two mirrors into one entry of KV 2, with and without data/', () => {
  it('if two mirrors write one entry of KV 2, one by a path with data/, the other without, the second reports Conflict until the first is deleted', async () => {
    const { mirrors } = scene;
    await mirrors.secret(HOME, 'one', { a: '1' });
    await mirrors.secret(HOME, 'two', { b: '2' });
    const { metadata } = await scene.toVault('one', { name: 'one' }, block('secret/data/both'));
    await scene.holds('secret/data/both', { a: '1' });
    // `creationTimestamp` has whole seconds. So mirror `two` is created at least 1 s later; otherwise either mirror
    // could count as the older one.
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
});

describe('mirrors that lead back to an entry', () => {
  it('if two mirrors copy an entry to a Secret and back with another path, both report Cycle and write nothing; one of them alone works', async () => {
    const { mirrors } = scene;
    const [name, path, back] = ['return', 'secret/data/return', 'secret/return'];
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

  it('mirrors between two Vault entries in both directions report Cycle, and mirrors in a chain do not', async () => {
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
