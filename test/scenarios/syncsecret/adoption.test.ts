/**
 * Tests that Keyferry takes over objects that KubeLB made: they stay the same objects, and nothing is deleted or
 * created again.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Tenant } from '../../support/sync-secret-clusters.ts';
import { waitFor, waitForStable } from '../../support/wait-for.ts';
import type { Chain } from './support.ts';
import { ORIGINAL_FINALIZER, pathOf, secretPath, syncSecretPath, SyncSecretScene } from './support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';
/** A wait, ms, that is longer than the pauses before repeated writes. */
const QUIET_MS = 1500;
const VALUES = { a: 'one', b: 'two' };
/** Labels and annotations of a tenant's SyncSecret. Both programs of KubeLB copy all of them. */
const TRAVELLED = {
  labels: { app: 'web', 'app.kubernetes.io/managed-by': 'Helm' },
  annotations: { note: 'x', 'k8s-replicator/replicate-to': '*' },
};

/** Names that differ between KubeLB's source and its documentation. */
interface Spelling {
  readonly finalizer: string;
  /** The label for the namespace of the tenant's SyncSecret. */
  readonly originNamespace: string;
}
const IN_SOURCE: Spelling = { finalizer: ORIGINAL_FINALIZER, originNamespace: 'kubelb.k8c.io/origin-ns' };
const DOCUMENTED: Spelling = {
  finalizer: 'kubelb.k8c.io/lb-finalizer',
  originNamespace: 'kubelb.k8c.io/origin-namespace',
};

/**
 * Creates what KubeLB would create for a tenant's SyncSecret: the finalizer on it and, in the management cluster, its
 * copy and the Secret.
 */
async function madeByKubelb(tenant: Tenant, object: Json, spelling = IN_SOURCE): Promise<Chain> {
  const { managementApi: api } = scene;
  const { namespace, name, uid, labels = {}, annotations = {} } = object.metadata;
  const finalizers = [spelling.finalizer];
  await scene.tenantApi.patch(syncSecretPath(namespace, name), { metadata: { finalizers } });
  // `kubectl apply` writes this annotation, which contains the values. KubeLB copies the annotation, too.
  const applied = { [LAST_APPLIED]: JSON.stringify({ data: object.data, stringData: object.stringData }) };
  const { apiVersion, kind, data, stringData, type } = object;
  const copy = await api.create({
    apiVersion,
    kind,
    metadata: {
      namespace: tenant.namespace,
      name: uid,
      labels: { ...labels, 'kubelb.k8c.io/origin-name': name, [spelling.originNamespace]: namespace },
      annotations: { ...annotations, ...applied },
      finalizers,
    },
    data,
    stringData,
    type,
  });
  const owner = { apiVersion, kind, name: uid, uid: copy.metadata.uid };
  const secret = await api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      namespace: tenant.namespace,
      name: copy.metadata.uid,
      labels: copy.metadata.labels,
      annotations: copy.metadata.annotations,
      ownerReferences: [owner],
    },
    data,
    stringData,
    type,
  });
  return { copy, secret };
}

/** Records the deletions of copies and Secrets from this moment on. */
async function deletions(tenant: Tenant): Promise<AsyncDisposable & { readonly seen: readonly string[] }> {
  const seen: string[] = [];
  const paths = [syncSecretPath(tenant.namespace, ''), secretPath(tenant.namespace, '')];
  const watches = await Promise.all(
    paths.map(
      async (path) =>
        await scene.managementApi.watch(path.slice(0, -1), ({ type, object }) => {
          const { name, deletionTimestamp } = object.metadata;
          if (type === 'DELETED' || deletionTimestamp !== undefined) seen.push(`${object.kind} ${name}`);
        }),
    ),
  );
  return {
    seen,
    async [Symbol.asyncDispose]() {
      for (const watch of watches) await watch.stop();
    },
  };
}

describe('objects of KubeLB', () => {
  it('Keyferry adopts the copies and Secrets that KubeLB made without recreating them, and gives them its marks, finalizer, labels and content; a deletion that KubeLB left is completed, and a copy without its SyncSecret stays', async () => {
    const tenant = await scene.tenant();
    await scene.namespaces('before');
    const text = (value: string): string => scene.canary + value;
    const objects: Record<string, Json> = {
      plain: await scene.create('before', 'plain', VALUES, { metadata: TRAVELLED }),
      text: await scene.create(
        'before',
        'text',
        {},
        {
          data: scene.data({ a: 'below' }),
          stringData: { a: text('one'), b: text('two') },
          metadata: TRAVELLED,
        },
      ),
      tls: await scene.create(
        'before',
        'tls',
        {},
        {
          data: undefined,
          stringData: { 'tls.crt': text('one'), 'tls.key': text('two') },
          type: 'kubernetes.io/tls',
        },
      ),
      immutable: await scene.create('before', 'immutable', VALUES, { immutable: true }),
    };
    const made = new Map<string, Chain>();
    for (const [name, object] of Object.entries(objects)) made.set(name, await madeByKubelb(tenant, object));
    // The values of this SyncSecret changed while no program ran.
    const changed = await scene.create('before', 'changed', VALUES);
    made.set('changed', await madeByKubelb(tenant, changed));
    objects['changed'] = await scene.change(scene.tenantApi, changed, { a: 'three' });
    objects['documented'] = await scene.create('before', 'documented', VALUES);
    made.set('documented', await madeByKubelb(tenant, objects['documented'], DOCUMENTED));
    // Another cluster with the tenant's name may own this copy.
    const lost = await scene.create('before', 'lost', VALUES);
    const { copy: kept } = await madeByKubelb(tenant, lost);
    await scene.tenantApi.patch(pathOf(lost), { metadata: { finalizers: null } });
    await scene.tenantApi.delete(pathOf(lost));
    const deleted = await scene.create('before', 'deleted', VALUES);
    const { copy: last, secret: lastSecret } = await madeByKubelb(tenant, deleted);
    await scene.tenantApi.delete(pathOf(deleted));
    await using gone = await deletions(tenant);

    const allowed = { args: ['--propagate-labels=app', '--propagate-annotations=note'] };
    await Promise.all([scene.ccm(tenant, allowed), scene.manager(allowed)]);
    for (const [name, object] of Object.entries(objects)) {
      const wanted = { tls: { 'tls.crt': 'one', 'tls.key': 'two' }, changed: { a: 'three' } }[name] ?? VALUES;
      await scene.arrived(tenant, object, wanted);
      await scene.phase(object, 'Synced');
      const { copy, secret } = await adopted(tenant, object);
      const old = made.get(name);
      assert.equal(copy.metadata.uid, old?.copy.metadata.uid);
      assert.equal(secret.metadata.uid, old?.secret.metadata.uid);
      assert.equal(secret.type, name === 'tls' ? 'kubernetes.io/tls' : 'Opaque');
      assert.equal(secret.immutable, name === 'immutable' ? true : undefined);
      const origin = {
        'kubelb.k8c.io/origin-name': name,
        'kubelb.k8c.io/origin-ns': 'before',
        'kubelb.k8c.io/origin-namespace': 'before',
      };
      const app = name === 'plain' || name === 'text' ? { app: 'web' } : {};
      assert.deepEqual(copy.metadata.labels, { ...app, ...origin });
      assert.deepEqual(secret.metadata.labels, { ...app, ...origin, 'keyferry.dev/copy': 'syncsecret' });
      for (const { metadata } of [copy, secret]) {
        const others = Object.keys(metadata.annotations).filter((key) => !key.startsWith('keyferry.dev/'));
        assert.deepEqual(others, 'app' in app ? ['note'] : []);
      }
      assert.deepEqual(secret.metadata.ownerReferences, old?.secret.metadata.ownerReferences);
    }
    const versions = async (): Promise<string> => {
      const chains = await Promise.all(Object.values(objects).map(async (object) => await adopted(tenant, object)));
      return JSON.stringify(
        chains.map(({ copy, secret }) => [copy, secret].map((one) => one.metadata.resourceVersion)),
      );
    };
    await waitForStable(versions, QUIET_MS, 'no more writes');
    await scene.gone(scene.tenantApi, deleted);
    await scene.gone(scene.managementApi, last, lastSecret);
    const finished = [`SyncSecret ${last.metadata.name}`, `Secret ${lastSecret.metadata.name}`];
    assert.deepEqual(new Set(gone.seen), new Set(finished));
    assert.equal((await scene.phase(kept, 'Synced', { api: scene.managementApi })).metadata.uid, kept.metadata.uid);
    for (const { metadata } of Object.values(objects)) {
      await scene.tenantApi.delete(syncSecretPath('before', metadata.name));
    }
    for (const { copy, secret } of made.values()) await scene.gone(scene.managementApi, copy, secret);
    await scene.gone(scene.tenantApi, ...Object.values(objects));
  });

  /** Waits until Keyferry's finalizer is the only one on SyncSecret and copy. @returns copy and Secret */
  async function adopted(tenant: Tenant, object: Json): Promise<Chain> {
    return await waitFor(
      async () => {
        const { namespace, name } = object.metadata;
        const copy = await scene.findCopy(tenant, object);
        for (const { metadata } of [copy, await scene.tenantApi.get(syncSecretPath(namespace, name))]) {
          assert.deepEqual(metadata.finalizers, ['kubelb.k8c.io/lb-finalizer']);
        }
        return { copy, secret: await scene.findSecret(copy) };
      },
      { message: () => `${object.metadata.name} to be adopted\n${scene.tail()}` },
    );
  }
});
