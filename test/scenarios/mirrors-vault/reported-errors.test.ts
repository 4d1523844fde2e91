/**
 * A mirror reports to its author that an entry or an address is invalid, or that Vault is down. Other mirrors are not
 * delayed.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { longIt } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { HOME, mirrorPath } from '../mirrors/support.ts';
import { ALL, VaultScene } from './support.ts';

describe('errors that a mirror with Vault reports', () => {
  let scene: VaultScene;
  let operator: Keyferry;
  before(async () => {
    scene = await VaultScene.open({ storage: 'file' });
    operator = await scene.mirrors.operator();
    await scene.mirrors.namespaces('target');
    await scene.tokenSecret('all', ALL);
  });
  after(() => scene.close());

  const from = (name: string, path: string, more: Json = {}, vault = scene.vault): Promise<Json> =>
    scene.fromVault(name, scene.block(path, 'all', more, vault), ['target']);

  it('if an entry is missing, soft-deleted or destroyed, its mirror reports which of these, and keeps its copies', async () => {
    const { mirrors, vault } = scene;
    await from('gone', 'secret/data/gone');
    const missing = await mirrors.ready('gone', 'VaultNotFound', /secret\/data\/gone not found, waiting to appear$/);
    assert.equal(missing.mirrorStatus, 'Pending');
    await scene.put('secret/data/gone', { a: '1' });
    await mirrors.copied('target', 'gone', { a: '1' });
    await mirrors.ready('gone', 'Synced');
    await vault.request('DELETE', 'secret/data/gone');
    await mirrors.ready('gone', 'VaultNotFound', /is deleted \(version 1\)/);
    await mirrors.event('gone', 'VaultNotFound', /deleted/);
    await mirrors.copied('target', 'gone', { a: '1' });
    await vault.request('PUT', 'secret/undelete/gone', { versions: [1] });
    await mirrors.ready('gone', 'Synced');
    await vault.request('PUT', 'secret/destroy/gone', { versions: [1] });
    await mirrors.ready('gone', 'VaultNotFound', /is destroyed/);
    await mirrors.copied('target', 'gone', { a: '1' });
    await scene.put('secret/data/gone', { a: '2' });
    await mirrors.copied('target', 'gone', { a: '2' });
  });

  it('if Vault refuses a path, the metric blames the user, even if the path has words that blame the operator', async () => {
    await scene.tokenSecret('little', 'path "secret/data/other" { capabilities = ["read"] }');
    for (const [name, path] of [
      ['plain', 'secret/data/plain'],
      ['odd', 'secret/data/no permission to'],
    ] as const) {
      await scene.fromVault(name, scene.block(path, 'little'), ['target']);
      await scene.mirrors.ready(name, 'VaultError', /permission denied/);
      const labels = { rule: `${HOME}/${name}`, reason: 'VaultError' };
      assert.equal(await operator.metric('keyferry_rule_ready', { ...labels, fault: 'user' }), 0, path);
      assert.equal(await operator.metric('keyferry_rule_ready', { ...labels, fault: 'operator' }), undefined, path);
    }
  });

  it('if values of an entry are not base64, the mirror reports their names', async () => {
    await scene.put('secret/data/coded', { word: '!' });
    await from('coded', 'secret/data/coded', { encoding: 'base64' });
    await scene.mirrors.ready('coded', 'InvalidValues', /"word"/);
  });

  it('values of an entry that are not strings are copied as JSON, together with 2,000 other keys', async () => {
    const { mirrors, vault } = scene;
    const many = Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`k${i}`, String(i)]));
    await vault.request('POST', 'secret/data/many', { data: { ...many, list: [1, { b: 2, a: true }], n: 42 } });
    await from('many', 'secret/data/many');
    const copy = await waitFor(() => mirrors.find('target', 'many'), { message: 'a copy of many keys' });
    assert.equal(Object.keys(copy.data).length, 2002);
    assert.equal(Buffer.from(copy.data.list, 'base64').toString(), '[1,{"a":true,"b":2}]');
    assert.equal(Buffer.from(copy.data.n, 'base64').toString(), '42');
  });

  it('bytes that are not UTF-8 are written to Vault only with encoding base64, and an entry that is too large is not written', async () => {
    const { mirrors } = scene;
    const object = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'binary', namespace: HOME } };
    await mirrors.api.create({ ...object, data: { text: 'aGk=', bytes: '/wA=' } });
    await scene.toVault('binary', { name: 'binary' }, scene.block('secret/data/binary', 'all'));
    await mirrors.ready('binary', 'VaultError', /not valid UTF-8.*"bytes"/);
    assert.equal(await scene.entry('secret/data/binary'), undefined);
    await mirrors.api.patch(mirrorPath('binary'), { spec: { destination: { vault: { encoding: 'base64' } } } });
    await mirrors.ready('binary', 'Synced');
    assert.deepEqual((await scene.entry('secret/data/binary')).data, { text: 'aGk=', bytes: '/wA=' });
    const large = {
      a: Buffer.alloc(520_000, 'x').toString('base64'),
      b: Buffer.alloc(520_000, 'y').toString('base64'),
    };
    await mirrors.api.create({ ...object, metadata: { name: 'large', namespace: HOME }, data: large });
    await scene.toVault('large', { name: 'large' }, scene.block('secret/data/large', 'all'));
    await mirrors.ready('large', 'VaultError', /bytes as JSON, and at most/);
  });

  it('a mirror reports a mount that does not exist; entries of KV 1, and paths of KV 2 without data/, are copied', async () => {
    const { mirrors, vault } = scene;
    await from('nomount', 'nowhere/data/x');
    await mirrors.ready('nomount', 'VaultError', /no handler|permission denied|invalid path/i);
    await vault.request('POST', 'sys/mounts/old', { type: 'kv', options: { version: '1' } });
    await vault.request('POST', 'old/app', { data: `${mirrors.canary}field` });
    await from('old', 'old/app');
    await mirrors.copied('target', 'old', { data: 'field' });
    await vault.request('POST', 'old/app', { data: `${mirrors.canary}changed` });
    await mirrors.copied('target', 'old', { data: 'changed' });
    await scene.toVault('toold', { name: 'binary' }, scene.block('old/written', 'all', { encoding: 'base64' }));
    await mirrors.ready('toold', 'Synced');
    assert.deepEqual((await vault.request('GET', 'old/written')).data, { data: { text: 'aGk=', bytes: '/wA=' } });
    for (const [name, entry] of [
      ['nested', { data: { data: { word: 'aGk=' } } }],
      ['flat', { data: { word: 'aGk=' } }],
    ] as const) {
      await vault.request('POST', `old/${name}`, entry.data);
      await from(name, `old/${name}`, { encoding: 'base64' });
      const copy = await waitFor(() => mirrors.find('target', name), { message: `a copy of ${name}` });
      assert.deepEqual(copy.data, { word: 'aGk=' });
    }
  });

  it('a mirror into a mount of KV 2 that is replaced by one of KV 1 writes the entry of its path there, and no other', async () => {
    const { mirrors, vault } = scene;
    const mount = (version: string): Promise<Json> =>
      vault.request('POST', 'sys/mounts/swapped', { type: 'kv', options: { version } });
    await mount('2');
    await mirrors.secret(HOME, 'swapped', { a: 'first' });
    await scene.toVault('swapped', { name: 'swapped' }, scene.block('swapped/app', 'all'));
    await scene.holds('swapped/data/app', { a: 'first' });
    await vault.request('DELETE', 'sys/mounts/swapped');
    await mount('1');
    await mirrors.change(HOME, 'swapped', { a: 'second' });
    const entry = async (): Promise<string | undefined> => (await vault.raw('GET', 'swapped/app')).body.data?.a;
    await waitFor(async () => (await entry()) === `${mirrors.canary}second`, { message: () => mirrors.tail() });
    assert.deepEqual((await vault.request('LIST', 'swapped')).data.keys, ['app']);
    await mirrors.ready('swapped', 'Synced');
  });

  it('if a mirror into Vault names an entry that another mirror writes, it reports Conflict', async () => {
    const { mirrors } = scene;
    await mirrors.secret(HOME, 'rival', { a: 'rival' });
    await scene.toVault('rival', { name: 'rival' }, scene.block('secret/data/binary', 'all'));
    await mirrors.ready('rival', 'Conflict', /managed by SecretMirror \S*binary/);
    assert.deepEqual((await scene.entry('secret/data/binary')).data, { text: 'aGk=', bytes: '/wA=' });
  });

  it('if another client changes an entry that a mirror writes, the mirror restores the entry with one new version', async () => {
    const { mirrors, vault } = scene;
    await mirrors.secret(HOME, 'guarded', { a: 'right' });
    await scene.toVault('guarded', { name: 'guarded' }, scene.block('secret/data/guarded', 'all'));
    await scene.holds('secret/data/guarded', { a: 'right' });
    await vault.request('POST', 'secret/data/guarded', { data: { a: 'wrong' } });
    const entry = await scene.holds('secret/data/guarded', { a: 'right' });
    assert.equal(entry.metadata.version, 3);
  });

  it('if an entry is deleted with its metadata and created again with the same version, mirrors notice it in their source and target', async () => {
    const { mirrors, vault } = scene;
    await mirrors.secret(HOME, 'remade', { a: 'right' });
    await scene.toVault('remade', { name: 'remade' }, scene.block('secret/data/remade', 'all'), {
      pollPeriodSeconds: 2,
    });
    await scene.holds('secret/data/remade', { a: 'right' });
    await scene.put('secret/data/origin', { a: 'first' });
    await scene.fromVault('origin', scene.block('secret/data/origin', 'all'), ['target'], { pollPeriodSeconds: 2 });
    await mirrors.copied('target', 'origin', { a: 'first' });
    await mirrors.ready('remade', 'Synced');
    for (const name of ['remade', 'origin']) {
      await vault.request('DELETE', `secret/metadata/${name}`);
      await scene.put(`secret/data/${name}`, { a: 'second' });
    }
    await mirrors.copied('target', 'origin', { a: 'second' });
    await scene.holds('secret/data/remade', { a: 'right' });
  });

  longIt('a Vault that was sealed for a long time is used again within 20 s after it is unsealed', async () => {
    const { mirrors } = scene;
    const closed = await scene.anotherVault({ storage: 'file' });
    await closed.request('PUT', 'sys/policies/acl/all', { policy: ALL });
    await scene.approle('closed', ALL, {}, closed);
    const auth = { approle: { secretRef: { name: 'closed' } } };
    await mirrors.secret(HOME, 'shut', { a: 'before' });
    const block = scene.block('secret/data/closed', '', { auth }, closed);
    await scene.toVault('closed', { name: 'shut' }, block, { pollPeriodSeconds: 600 });
    await scene.holds('secret/data/closed', { a: 'before' }, closed);
    await closed.seal();
    await mirrors.change(HOME, 'shut', { a: 'meanwhile' });
    const failures = (): number =>
      operator.logs().filter(({ queue, target }) => queue === 'targets' && String(target).includes(closed.addr)).length;
    // After nine failed tries, pauses that double without a limit would be longer than the limit of 20 s below.
    await waitFor(() => failures() >= 9, { timeoutMs: 120_000, message: 'nine failed tries' });
    await closed.unseal();
    await within(20_000, 'the change', async () => {
      await mirrors.change(HOME, 'shut', { a: 'after' });
      const arrived = async (): Promise<boolean> =>
        (await scene.entry('secret/data/closed', closed))?.metadata.version === 2;
      await waitFor(arrived, { message: 'the change' });
    });
  });

  it('a mirror reports an address that does not answer or is not a Vault', async () => {
    const { mirrors } = scene;
    await from('unreachable', 'secret/data/x', { addr: 'http://127.0.0.1:1' });
    await mirrors.ready('unreachable', 'VaultError', /ECONNREFUSED|refused|127\.0\.0\.1:1/);
    await from('kube', 'secret/data/x', { addr: mirrors.plane.url, caBundle: mirrors.plane.caPem });
    await waitFor(async () => (await mirrors.status('kube'))?.mirrorStatus === 'Error');
  });
});

failOnLeaks();
