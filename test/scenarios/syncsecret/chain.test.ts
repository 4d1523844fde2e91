/**
 * Tests the whole chain: the SyncSecret of a tenant, its copy in the management cluster, and the Secret made from the
 * copy.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { longIt } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { ALL_TRAVEL, SyncSecretScene, pathOf, syncSecretPath } from './support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

/** Annotations in which Keyferry keeps its bookkeeping. Other tests check their values. */
const BOOKKEEPING = new Set(['keyferry.dev/source-version', 'keyferry.dev/target']);

/** The labels and annotations of an object, without Keyferry's bookkeeping. */
function marksOf({ metadata: { labels, annotations } }: Json): Json {
  const entries = Object.entries(annotations).filter(([key]) => !BOOKKEEPING.has(key));
  return { labels, annotations: Object.fromEntries(entries) };
}

function originLabels(name: string, namespace: string): Record<string, string> {
  return {
    'kubelb.k8c.io/origin-name': name,
    'kubelb.k8c.io/origin-ns': namespace,
    'kubelb.k8c.io/origin-namespace': namespace,
  };
}

/**
 * Keys of labels and annotations that stay in the tenant's cluster, some of them even if an administrator allows them.
 */
const STAYING = [
  'kubelb.k8c.io/managed-by',
  'keyferry.dev/own',
  'app.kubernetes.io/managed-by',
  'meta.helm.sh/release-name',
  'argocd.argoproj.io/instance',
  'k8s-replicator/replicate-to',
  'replicate-to',
  'cert-manager.io/inject',
  'kubernetes.io/service-account.name',
];
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

describe('a SyncSecret of a tenant', () => {
  it("a tenant's SyncSecret becomes a Secret in the management cluster, which follows its changes and is deleted with it", async () => {
    const { tenant } = await scene.running();
    await scene.namespaces('production');
    const object = await scene.create('production', 'app-tls', { a: 'one', b: 'two' });
    const { copy, secret } = await scene.arrived(tenant, object, { a: 'one', b: 'two' });
    assert.equal(copy.metadata.name, object.metadata.uid);
    assert.equal(secret.metadata.name, copy.metadata.uid);
    const { metadata: kubeSystem } = await scene.tenantApi.get('/api/v1/namespaces/kube-system');
    assert.deepEqual(marksOf(copy), {
      labels: originLabels('app-tls', 'production'),
      annotations: { 'keyferry.dev/origin': `${kubeSystem.uid}/production/app-tls` },
    });
    assert.deepEqual(marksOf(secret), {
      labels: { ...originLabels('app-tls', 'production'), 'keyferry.dev/copy': 'syncsecret' },
      annotations: { 'keyferry.dev/syncsecret': copy.metadata.name },
    });
    assert.equal(copy.metadata.ownerReferences, undefined);
    const { name, uid } = copy.metadata;
    assert.deepEqual(secret.metadata.ownerReferences, [
      { apiVersion: 'kubelb.k8c.io/v1alpha1', kind: 'SyncSecret', name, uid },
    ]);
    assert.deepEqual([secret.metadata.finalizers, secret.immutable, secret.type], [undefined, undefined, 'Opaque']);
    const done = await scene.phase(object, 'Synced', { reason: 'Synced', message: /^Secret synced successfully$/ });
    for (const { metadata } of [done, copy]) assert.deepEqual(metadata.finalizers, ['kubelb.k8c.io/lb-finalizer']);
    await scene.change(scene.tenantApi, object, { b: 'three' });
    await scene.arrived(tenant, object, { b: 'three' });
    await scene.phase(object, 'Synced');
    await scene.tenantApi.delete(syncSecretPath('production', 'app-tls'));
    await scene.gone(scene.tenantApi, object);
    await scene.gone(scene.managementApi, copy, secret);
  });

  it('copy and Secret follow every change of keys, and every change of labels and annotations that flags allow', async () => {
    const { tenant } = await scene.running({
      args: ['--propagate-labels=app|tier|team,example\\.com/.*', '--propagate-annotations=note,text,more'],
    });
    const staying = Object.fromEntries(STAYING.map((key) => [key, 'x']));
    const metadata = {
      labels: { ...staying, app: 'web', tier: 'a', 'example.com/empty': '' },
      annotations: { ...staying, [LAST_APPLIED]: scene.canary, note: 'x', text: 'ü\n"' },
    };
    const object = await scene.create('default', 'followed', { a: 'one', b: 'two' }, { metadata });
    const path = syncSecretPath('default', 'followed');
    let values: Record<string, string> = { a: 'one', b: 'two' };

    const follows = async (labels: object, annotations: object): Promise<void> => {
      const wanted = {
        labels: { ...labels, ...originLabels('followed', 'default') },
        annotations,
      };
      const look = async (): Promise<boolean> => {
        const { copy, secret } = await scene.arrived(tenant, object, values);
        for (const one of [copy, secret]) {
          const { labels: seen, annotations: notes } = marksOf(one);
          const { 'keyferry.dev/copy': _copy, ...ordinary } = seen;
          const own = Object.entries(notes).filter(([key]) => !key.startsWith('keyferry.dev/'));
          assert.deepEqual({ labels: ordinary, annotations: Object.fromEntries(own) }, wanted);
        }
        return true;
      };
      await waitFor(look, { message: () => `labels and annotations to follow\n${scene.tail()}` });
    };

    await follows({ app: 'web', tier: 'a', 'example.com/empty': '' }, { note: 'x', text: 'ü\n"' });
    // Only labels and annotations change, so the generation stays the same.
    const changed = {
      labels: { app: 'other', tier: null, team: 'b' },
      annotations: { note: 'y', text: null, more: '' },
    };
    await scene.tenantApi.patch(path, { metadata: changed });
    await follows({ app: 'other', team: 'b', 'example.com/empty': '' }, { note: 'y', more: '' });
    // Values and metadata change in one write.
    values = { b: 'three', c: 'four' };
    await scene.tenantApi.patch(path, {
      metadata: { labels: { app: null }, annotations: { more: 'z' } },
      data: { ...scene.data(values), a: null },
    });
    await follows({ team: 'b', 'example.com/empty': '' }, { note: 'y', more: 'z' });
    await scene.tenantApi.patch(
      path,
      [
        { op: 'remove', path: '/metadata/labels' },
        { op: 'remove', path: '/metadata/annotations' },
      ],
      'json',
    );
    await follows({}, {});
    const settled = await scene.phase(object, 'Synced');
    assert.equal(settled.metadata.labels, undefined);
  });

  it('if a label is removed, or is no longer allowed, while no program runs, copy and Secret lose it at the next start', async () => {
    const { tenant, ccm, manager } = await scene.running(ALL_TRAVEL);
    const metadata = { labels: { app: 'web', tier: 'a' }, annotations: { note: 'x', text: 'y' } };
    const object = await scene.create('default', 'away', { a: 'one' }, { metadata });
    const keysOf = async (): Promise<string[]> => {
      const { copy, secret } = await scene.arrived(tenant, object, { a: 'one' });
      return [copy, secret].map(({ metadata: { labels, annotations } }) =>
        ['app', 'tier', 'note', 'text'].filter((key) => key in labels || key in annotations).join(' '),
      );
    };
    const have = async (keys: string): Promise<void> => {
      const message = (): string => `copy and Secret to have ${keys}\n${scene.tail()}`;
      await waitFor(async () => (await keysOf()).every((seen) => seen === keys), { message });
    };
    await have('app tier note text');
    await Promise.all([ccm.kill9(), manager.kill9()]);
    await scene.tenantApi.patch(pathOf(object), { metadata: { labels: { tier: null }, annotations: { text: null } } });
    const restarted = await Promise.all([scene.ccm(tenant, ALL_TRAVEL), scene.manager(ALL_TRAVEL)]);
    await have('app note');
    await Promise.all(restarted.map(async (program) => await program.kill9()));
    await Promise.all([scene.ccm(tenant), scene.manager()]);
    await have('');
  });

  it('texts in stringData, also empty ones, take precedence over data, and the values in data return when stringData is removed', async () => {
    const { tenant } = await scene.running();
    const text = (value: string): string => scene.canary + value;
    const object = await scene.create(
      'default',
      'texts',
      { a: 'below', b: 'two' },
      { stringData: { a: text('over') } },
    );
    const path = syncSecretPath('default', 'texts');
    await scene.arrived(tenant, object, { a: 'over', b: 'two' });
    await scene.tenantApi.patch(path, { data: { a: scene.value('changed below') }, stringData: { c: text('new') } });
    await scene.arrived(tenant, object, { a: 'over', b: 'two', c: 'new' });
    await scene.tenantApi.patch(path, { stringData: null });
    await scene.arrived(tenant, object, { a: 'changed below', b: 'two' });
    await scene.tenantApi.patch(path, { data: null, stringData: { a: text('alone') } });
    const { copy } = await scene.arrived(tenant, object, { a: 'alone' });
    assert.equal(copy.stringData, undefined, 'no value in clear text');
    await scene.tenantApi.patch(path, { stringData: null });
    await scene.arrived(tenant, object, {});
    await scene.tenantApi.patch(path, { stringData: { empty: '' } });
    const hasEmpty = async (): Promise<boolean> => (await scene.findSecret(copy)).data?.empty === '';
    await waitFor(hasEmpty, { message: () => `the empty value\n${scene.tail()}` });
    await scene.phase(object, 'Synced');
  });

  longIt(
    'a SyncSecret with a name of 253 characters is copied, and the label that names its origin is shortened',
    async () => {
      const { tenant } = await scene.running();
      const namespace = 'n'.repeat(63);
      await scene.namespaces(namespace);
      const names = [`${'long.'.repeat(50)}one`, `${'long.'.repeat(50)}two`, `${'x'.repeat(50)}${'-'.repeat(202)}x`];
      const labels: string[] = [];
      for (const name of names) {
        assert.equal(name.length, 253);
        const object = await scene.create(namespace, name, { a: name.slice(-3) });
        const { copy, secret } = await scene.arrived(tenant, object, { a: name.slice(-3) });
        const label = copy.metadata.labels['kubelb.k8c.io/origin-name'];
        assert.match(label, /^[a-z0-9]([-.a-z0-9]*[a-z0-9])?-[0-9a-f]{10}$/);
        assert.ok(label.length <= 63 && name.startsWith(label.slice(0, -11)), label);
        assert.equal(secret.metadata.labels['kubelb.k8c.io/origin-name'], label);
        assert.equal(secret.metadata.labels['kubelb.k8c.io/origin-ns'], namespace);
        assert.ok(copy.metadata.annotations['keyferry.dev/origin'].endsWith(`/${namespace}/${name}`));
        labels.push(label);
        await scene.phase(object, 'Synced');
        await scene.change(scene.tenantApi, object, { b: 'changed' });
        await scene.arrived(tenant, object, { b: 'changed' });
        await scene.tenantApi.delete(syncSecretPath(namespace, name));
        await scene.gone(scene.managementApi, copy, secret);
      }
      assert.equal(new Set(labels).size, names.length);
    },
  );

  it('a SyncSecret that is deleted and created again gets a new copy and Secret, and the old ones are deleted', async () => {
    const { tenant } = await scene.running();
    const old = await scene.create('default', 'again', { a: 'old' });
    const before = await scene.arrived(tenant, old, { a: 'old' });
    await scene.tenantApi.delete(syncSecretPath('default', 'again'));
    await scene.gone(scene.tenantApi, old);
    const object = await scene.create('default', 'again', { a: 'new' });
    const { copy, secret } = await scene.arrived(tenant, object, { a: 'new' });
    assert.notEqual(copy.metadata.name, before.copy.metadata.name);
    assert.notEqual(secret.metadata.name, before.secret.metadata.name);
    await scene.gone(scene.managementApi, before.copy, before.secret);
    await scene.phase(object, 'Synced');
  });

  it('owner references of a SyncSecret are not copied, because with them the management cluster would delete the copy', async () => {
    const { tenant } = await scene.running();
    const owner = await scene.tenantApi.create({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { namespace: 'default', name: 'owner' },
    });
    const { name, uid } = owner.metadata;
    const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid, controller: true }];
    const object = await scene.create('default', 'owned', { a: 'one' }, { metadata: { ownerReferences } });
    const { copy, secret } = await scene.arrived(tenant, object, { a: 'one' });
    assert.equal(copy.metadata.ownerReferences, undefined);
    await scene.phase(object, 'Synced');
    // In the tenant's cluster the owner reference counts: the garbage collector deletes the SyncSecret with its owner.
    await scene.tenantApi.delete('/api/v1/namespaces/default/configmaps/owner');
    await scene.gone(scene.tenantApi, object);
    await scene.gone(scene.managementApi, copy, secret);
  });
});
