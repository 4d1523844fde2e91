/**
 * Tests the whole chain: the SyncSecret of a tenant, its copy in the management cluster, and the Secret made from the
 * copy.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { longIt } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { SyncSecretScene, pathOf, syncSecretPath } from './support.ts';

/** The labels and annotations that travel in this file. */
const TRAVEL = {
  args: ['--propagate-labels=app|tier|team,example\\.com/.*', '--propagate-annotations=note,text,more'],
};
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
const UID = '3d8f4a52-9b1f-4a35-9f0e-0a3a6d1c7f11';
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

describe('a SyncSecret of a tenant', () => {
  it("a tenant's SyncSecret becomes a Secret in the management cluster, which follows its changes and is deleted with it", async () => {
    const { tenant } = await scene.kept(TRAVEL);
    await scene.namespaces('production');
    // With its owners, which are in the tenant's cluster, the copy would be garbage in the management cluster.
    const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'x', uid: UID, controller: true }];
    const object = await scene.create(
      'production',
      'app-tls',
      { a: 'one', b: 'two' },
      { metadata: { ownerReferences } },
    );
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
    const { tenant } = await scene.kept(TRAVEL);
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

  it('texts in stringData, also empty ones, take precedence over data, and the values in data return when stringData is removed', async () => {
    const { tenant } = await scene.kept(TRAVEL);
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
      const { tenant } = await scene.kept(TRAVEL);
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

  it('if a label is removed, or is no longer allowed, while no program runs, copy and Secret lose it at the next start', async () => {
    const { tenant } = await scene.kept(TRAVEL);
    const metadata = { labels: { app: 'web', tier: 'a', team: 'b' }, annotations: { note: 'x', text: 'y', more: 'z' } };
    const object = await scene.create('default', 'away', { a: 'one' }, { metadata });
    const keysOf = async (): Promise<string[]> => {
      const { copy, secret } = await scene.arrived(tenant, object, { a: 'one' });
      return [copy, secret].map(({ metadata: { labels, annotations } }) =>
        ['app', 'tier', 'team', 'note', 'text', 'more'].filter((key) => key in labels || key in annotations).join(' '),
      );
    };
    const have = async (keys: string): Promise<void> => {
      const message = (): string => `copy and Secret to have ${keys}\n${scene.tail()}`;
      await waitFor(async () => (await keysOf()).every((seen) => seen === keys), { message });
    };
    await have('app tier team note text more');
    await scene.endKept();
    await scene.tenantApi.patch(pathOf(object), { metadata: { labels: { tier: null }, annotations: { text: null } } });
    const fewer = { args: ['--propagate-labels=app|tier', '--propagate-annotations=note,text'] };
    await Promise.all([scene.ccm(tenant, fewer), scene.manager(fewer)]);
    await have('app note');
  });
});
