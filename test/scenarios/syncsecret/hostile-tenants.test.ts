/**
 * Tests a hostile tenant, who writes SyncSecrets to the management cluster with its own token, without a CCM. Manager,
 * mirrors and replicator run there with all permissions, and must not harm other tenants.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json, TestApi } from '../../support/api.ts';
import type { Tenant } from '../../support/sync-secret-clusters.ts';
import { waitFor } from '../../support/wait-for.ts';
import { refuse } from '../engine/admission.ts';
import { secretPath, syncSecretPath, SyncSecretScene } from './support.ts';

let scene: SyncSecretScene;
let tenant: Tenant;
/** A client with the token of the tenant. */
let user: TestApi;
/** A client of an administrator of the management cluster. */
let admin: TestApi;
/** Secrets of an administrator, one of them in the tenant's namespace. */
let ofAdministrator: Json[];
let sentinels = 0;

before(async () => {
  scene = await SyncSecretScene.open();
  admin = scene.managementApi;
  await admin.createNamespaces(['elsewhere', 'sentinels']);
  tenant = await scene.tenant();
  user = scene.clusters.managementPlane.client({ token: tenant.token });
  const places = [
    { namespace: 'elsewhere', name: 'victim' },
    { namespace: tenant.namespace, name: 'of-administrator' },
  ];
  const creations = places.map((metadata) =>
    admin.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: scene.data({ a: 'theirs' }) }),
  );
  ofAdministrator = await Promise.all(creations);
});
after(async () => {
  user.close();
  await scene.close();
});
afterEach(() => scene.clear());

/**
 * Manager, mirrors and replicator with an administrator's permissions. So only Keyferry's own checks can prevent harm.
 * @param args with some, a new program is started for this test, and that of the other tests ends
 */
async function startAll(...args: readonly string[]): Promise<void> {
  const options = {
    inRun: true,
    args: ['--controllers=mirrors,replicator,syncsecret-manager', ...args],
    kubeconfig: scene.clusters.managementPlane.kubeconfigPath,
  };
  if (args.length === 0) {
    await scene.keptManager(options);
  } else {
    await scene.endKept(['manager']);
    await scene.manager(options);
  }
}

/** Creates a SyncSecret in the tenant's namespace of the management cluster, as the tenant. */
async function attack(name: string, more: Json = {}): Promise<Json> {
  return await scene.create(tenant.namespace, name, { a: 'mine' }, more, user);
}

/** Waits until mirrors and replicator have handled all earlier events: they copy objects that are created here. */
async function sentinel(): Promise<void> {
  const name = `sentinel-${(sentinels += 1)}`;
  const annotations = { 'k8s-replicator/replicate-to': `sentinels/${name}-of-replicator` };
  await admin.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'default', annotations } });
  await admin.create({
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { name, namespace: 'default' },
    spec: { source: { name }, destination: { namespaces: ['sentinels'] } },
  });
  for (const copy of [name, `${name}-of-replicator`]) {
    await waitFor(() => admin.find(secretPath('sentinels', copy)), { message: () => `${copy}\n${scene.tail()}` });
  }
}

/** All Secrets and ConfigMaps except those of `sentinel`, each as `namespace/name uid`. */
async function everything(): Promise<string[]> {
  const lists = await Promise.all(['secrets', 'configmaps'].map((plural) => admin.list(`/api/v1/${plural}`)));
  return lists
    .flat()
    .filter(({ metadata: { name } }) => !name.startsWith('sentinel-'))
    .map(({ metadata: { namespace, name, uid } }) => `${namespace}/${name} ${uid}`)
    .toSorted();
}

const placeOf = ({ metadata: { namespace, name, uid } }: Json): string => `${namespace}/${name} ${uid}`;

const REPLICATION = {
  'replicate-from': 'elsewhere/victim',
  'replicate-to': 'elsewhere/stolen,elsewhere/victim',
  'replicate-to-namespaces': '.*',
  'replicate-once': 'true',
  'replicate-once-version': '1',
  'replication-allowed': 'true',
  'replication-allowed-namespaces': '.*',
  'replicated-at': '2020-01-01T00:00:00Z',
  'replicated-by': 'elsewhere/victim',
  'replicated-from-version': '1',
  'replicated-from-origin': 'elsewhere/victim',
  'replicated-from-allowed': 'true',
};
const withPrefix = (prefix: string): Record<string, string> =>
  Object.fromEntries(Object.entries(REPLICATION).map(([key, value]) => [`${prefix}${key}`, value]));

/**
 * Annotations with which the webhook of bank-vaults logs in at a server of the tenant's choice and fills the Secret.
 */
const BANK_VAULTS = {
  'secrets-webhook.security.bank-vaults.io/vault-addr': 'https://evil.example',
  'secrets-webhook.security.bank-vaults.io/vault-role': 'admin',
};
/**
 * Labels in the test below that are copied if an administrator allows all labels. The next list has such annotations.
 */
const FREE_LABELS = [
  'app',
  'owner',
  'grafana_datasource',
  'app.kubernetes.io/managed-by',
  'app.kubernetes.io/instance',
  'app.kubernetes.io/name',
  'argocd.argoproj.io/secret-type',
  'kustomize.toolkit.fluxcd.io/name',
];
const FREE_ANNOTATIONS = [
  'note',
  ...Object.keys(BANK_VAULTS),
  'meta.helm.sh/release-name',
  'helm.sh/resource-policy',
  'argocd.argoproj.io/tracking-id',
];
const pick = (map: Record<string, string>, keys: readonly string[]): Record<string, string> =>
  Object.fromEntries(Object.entries(map).filter(([key]) => keys.includes(key)));

/** Creates the SyncSecret of another tenant. @returns it as `chain`, and all objects that must stay unharmed */
async function victims(): Promise<{ readonly objects: readonly Json[]; readonly chain: Json }> {
  const other = await scene.tenant();
  const object = await scene.create(other.namespace, 'victim', { a: 'theirs' }, {}, admin);
  const { secret } = await scene.made(object, { a: 'theirs' });
  const chain = await scene.phase(object, 'Synced', { api: admin });
  return { objects: [...ofAdministrator, chain, secret], chain };
}

/** Checks that these objects were not deleted or changed. */
async function assertUnharmed(objects: readonly Json[]): Promise<void> {
  for (const { kind, metadata, data } of objects) {
    const { namespace, name, uid } = metadata;
    const now = await admin.find(kind === 'Secret' ? secretPath(namespace, name) : syncSecretPath(namespace, name));
    assert.equal(now?.metadata.uid, uid, `${kind} ${namespace}/${name}`);
    assert.equal(now.metadata.deletionTimestamp, undefined);
    assert.deepEqual(now.data, data);
    if (kind === 'Secret') assert.deepEqual(now.metadata, metadata);
  }
}

/** Creates an object, and deletes it when the result is disposed. */
async function temporary(object: Json): Promise<AsyncDisposable & { readonly path: string }> {
  await admin.create(object);
  const path = await admin.pathOf(object);
  return { path, [Symbol.asyncDispose]: async () => void (await admin.delete(path)) };
}

/**
 * Waits until the server refuses new Secrets with this HTTP status: a new quota, webhook or policy is in force after a
 * moment.
 */
async function refusesSecrets(namespace: string, status: number, path: string): Promise<void> {
  const probe = { query: { dryRun: 'All' }, body: { metadata: { name: 'probe' } } };
  const attempt = async (): Promise<number> =>
    (await admin.raw('POST', `/api/v1/namespaces/${namespace}/secrets`, probe)).status;
  await waitFor(async () => (await attempt()) === status, { message: `${path} to be in force` });
}

describe('labels and annotations of a hostile tenant', () => {
  for (const [title, args, labels, annotations] of [
    [
      'reach no other namespace, even if an administrator allows all except marks',
      ['--syncsecret-propagate-labels=.*', '--syncsecret-propagate-annotations=.*'],
      FREE_LABELS,
      FREE_ANNOTATIONS,
    ],
    ['reach no Secret, and nothing reaches another namespace', [], [], []],
  ] as const) {
    it(`a hostile tenant's labels and annotations ${title}`, async () => {
      await startAll(...args);
      const { objects } = await victims();
      const before = await everything();
      const object = await attack('attack', {
        metadata: {
          labels: {
            app: 'web',
            owner: 'helm',
            grafana_datasource: '1',
            'app.kubernetes.io/managed-by': 'Helm',
            'app.kubernetes.io/instance': 'x',
            'app.kubernetes.io/name': 'web',
            'argocd.argoproj.io/secret-type': 'cluster',
            'kustomize.toolkit.fluxcd.io/name': 'x',
            'keyferry.dev/copy': 'mirrors',
            'kubelb.k8c.io/managed-by': 'kubelb',
            'kubelb.k8c.io/origin-name': 'victim',
            'kubelb.k8c.io/origin-ns': 'elsewhere',
          },
          annotations: {
            note: 'x',
            ...BANK_VAULTS,
            ...withPrefix('k8s-replicator/'),
            ...withPrefix('other.example.com/'),
            ...withPrefix(''),
            'replicator.v1.mittwald.de/replicate-to': '.*',
            'reflector.v1.k8s.emberstack.com/reflection-allowed': 'true',
            'reflector.v1.k8s.emberstack.com/reflection-auto-enabled': 'true',
            'kubed.appscode.com/sync': '',
            'mirrors.kts.studio/owned-by': 'default/gone',
            'meta.helm.sh/release-name': 'x',
            'helm.sh/resource-policy': 'keep',
            'argocd.argoproj.io/tracking-id': 'x',
            'kubernetes.io/service-account.name': 'default',
            'kubectl.kubernetes.io/last-applied-configuration': '{}',
            'keyferry.dev/origin': `x/elsewhere/victim`,
            'keyferry.dev/target': 'elsewhere/victim',
            'keyferry.dev/syncsecret': 'victim',
            'keyferry.dev/secret': 'victim',
            'keyferry.dev/source-version': '1',
            'keyferry.dev/original-type': 'kubernetes.io/service-account-token',
            'keyferry.dev/overwritten': 'true',
            'keyferry.dev/retain': 'true',
            'keyferry.dev/anything': 'x',
          },
        },
      });
      const { secret } = await scene.made(object, { a: 'mine' });
      await scene.phase(object, 'Synced', { api: user });
      await sentinel();
      assert.deepEqual(secret.metadata.labels, {
        ...pick(object.metadata.labels, labels),
        // The origin labels name an object of the tenant. A tenant may write any name there.
        'kubelb.k8c.io/origin-name': 'victim',
        'kubelb.k8c.io/origin-ns': 'elsewhere',
        'keyferry.dev/copy': 'syncsecret',
      });
      const { 'keyferry.dev/source-version': version, ...others } = secret.metadata.annotations;
      assert.match(version, new RegExp(`^${object.metadata.uid}:`));
      assert.deepEqual(others, {
        ...pick(object.metadata.annotations, annotations),
        'keyferry.dev/syncsecret': 'attack',
        'keyferry.dev/target': `${tenant.namespace}/${object.metadata.uid}`,
      });
      assert.deepEqual(await everything(), [...before, placeOf(secret)].toSorted());
      await assertUnharmed(objects);
      await user.delete(syncSecretPath(tenant.namespace, 'attack'));
      await scene.gone(admin, object, secret);
      await sentinel();
      assert.deepEqual(await everything(), before);
      await assertUnharmed(objects);
    });
  }

  it("if a tenant adds the replicator's annotations to its SyncSecret later, they cause no copy", async () => {
    await startAll('--syncsecret-propagate-annotations=note');
    const object = await attack('attack');
    await scene.made(object, { a: 'mine' });
    const before = await everything();
    const annotations = { ...withPrefix('k8s-replicator/'), 'keyferry.dev/target': 'elsewhere/victim', note: 'x' };
    await user.patch(syncSecretPath(tenant.namespace, 'attack'), { metadata: { annotations } });
    const secret = await waitFor(async () => {
      const found = await scene.findSecret(object);
      return found.metadata.annotations.note === 'x' && found;
    });
    await sentinel();
    assert.deepEqual(Object.keys(secret.metadata.annotations).toSorted(), [
      'keyferry.dev/source-version',
      'keyferry.dev/syncsecret',
      'keyferry.dev/target',
      'note',
    ]);
    assert.deepEqual(await everything(), before);
  });
});

const OPAQUE = /^Secret synced successfully; its type is Opaque, because .* kubernetes\.io\/service-account-token /;

describe('types of the SyncSecrets of a hostile tenant', () => {
  it("a tenant's SyncSecret of a token type issues no token: it becomes an Opaque Secret, or no Secret for a bootstrap token", async () => {
    await startAll();
    const metadata = { annotations: { 'kubernetes.io/service-account.name': 'default' } };
    const type = 'kubernetes.io/service-account-token';
    const object = await attack('token', { type, metadata });
    const changed = await attack('changed', { metadata });
    await scene.made(changed, { a: 'mine' });
    await user.patch(syncSecretPath(tenant.namespace, 'changed'), { type });
    for (const one of [object, changed]) {
      await scene.phase(one, 'Synced', { api: user, message: OPAQUE });
      const { secret } = await scene.made(one, { a: 'mine' });
      assert.equal(secret.type, 'Opaque');
      assert.equal(secret.metadata.annotations['keyferry.dev/original-type'], type);
      assert.equal(secret.metadata.annotations['kubernetes.io/service-account.name'], undefined);
    }
    // Without the type, its annotation goes. The Secret is Opaque already, so it is not replaced.
    const { secret: kept } = await scene.made(object, { a: 'mine' });
    await user.patch(syncSecretPath(tenant.namespace, 'token'), { type: null });
    const done = await scene.phase(object, 'Synced', { api: user, message: /^Secret synced successfully$/ });
    const { metadata: now } = await scene.findSecret(done);
    assert.deepEqual([now.uid, now.annotations['keyferry.dev/original-type']], [kept.metadata.uid, undefined]);
    const bootstrap = await attack('bootstrap', { type: 'bootstrap.kubernetes.io/token' });
    await user.patch(syncSecretPath(tenant.namespace, 'changed'), { type: 'bootstrap.kubernetes.io/token' });
    const message = /Secrets of type bootstrap\.kubernetes\.io\/token are never copied$/;
    for (const one of [bootstrap, changed]) await scene.phase(one, 'Failed', { api: user, message });
    assert.equal(await scene.findSecret(bootstrap), undefined);
    assert.equal((await scene.findSecret(changed)).type, 'Opaque');
    const types = (await admin.list(`/api/v1/namespaces/${tenant.namespace}/secrets`)).map((secret) => secret.type);
    assert.deepEqual([...new Set(types)], ['Opaque']);
  });
});

describe('marks, owners and names in the SyncSecrets of a hostile tenant', () => {
  it("a tenant's SyncSecrets with the marks, owners and names of others harm no object of others, even when they are deleted", async () => {
    await startAll();
    const { objects, chain } = await victims();
    const config = await admin.create({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'of-administrator', namespace: tenant.namespace },
    });
    const owner = (object: Json): Json => {
      const { apiVersion, kind, metadata } = object;
      const { name, uid } = metadata;
      return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
    };
    const victimPlace = `${chain.metadata.namespace}/${chain.metadata.name}`;
    const attacks: Json[] = [];
    const annotations = [
      { 'keyferry.dev/syncsecret': chain.metadata.name, 'keyferry.dev/target': victimPlace },
      { 'keyferry.dev/origin': `x/${victimPlace}` },
      { 'keyferry.dev/secret': 'of-administrator' },
    ];
    for (const [index, one] of annotations.entries()) {
      attacks.push(await attack(`marks-${index}`, { metadata: { annotations: one } }));
    }
    // SyncSecrets named like other objects or like their uids, because the manager names Secrets by uids.
    for (const { metadata } of [...objects, config]) attacks.push(await attack(metadata.uid));
    attacks.push(await attack('of-administrator'), await attack('victim'));
    const owned = await attack('owned', { metadata: { ownerReferences: [owner(config)] } });
    attacks.push(owned, await attack('stranger', { metadata: { ownerReferences: [owner(chain)] } }));
    for (const one of attacks) await scene.made(one, { a: 'mine' });
    const secret = await scene.findSecret(owned);
    assert.deepEqual(secret.metadata.ownerReferences, [
      { apiVersion: 'kubelb.k8c.io/v1alpha1', kind: 'SyncSecret', name: 'owned', uid: owned.metadata.uid },
    ]);
    await assertUnharmed(objects);
    for (const { metadata } of attacks) await user.delete(syncSecretPath(tenant.namespace, metadata.name));
    await scene.gone(admin, ...attacks);
    await sentinel();
    await assertUnharmed(objects);
    assert.equal((await admin.get(await admin.pathOf(config))).metadata.uid, config.metadata.uid);
  });

  it("the manager handles a tenant's SyncSecret with 2,000 finalizers and a forged status like any other SyncSecret", async () => {
    await startAll();
    const finalizers = Array.from({ length: 2000 }, (_, index) => `example.com/${'x'.repeat(50)}-${index}`);
    const lie = {
      type: 'Synced',
      status: 'True',
      reason: 'Lie',
      message: 'lie',
      lastTransitionTime: '2020-01-01T00:00:00Z',
    };
    const status = { phase: 'Lie', observedGeneration: 99, conditions: [lie] };
    const object = await attack('attack', { metadata: { finalizers }, status });
    const { secret } = await scene.made(object, { a: 'mine' });
    assert.equal(secret.metadata.finalizers, undefined);
    const done = await scene.phase(object, 'Synced', { api: user, reason: 'Synced' });
    assert.deepEqual(done.metadata.finalizers, [...finalizers, 'kubelb.k8c.io/lb-finalizer']);
    await user.delete(syncSecretPath(tenant.namespace, 'attack'));
    await scene.gone(admin, secret);
    const left = await waitFor(async () => {
      const found = await user.get(syncSecretPath(tenant.namespace, 'attack'));
      return found.metadata.finalizers.length === finalizers.length && found;
    });
    assert.deepEqual(left.metadata.finalizers, finalizers);
  });
});

describe('the status and events that a hostile tenant can read', () => {
  it('the status and events that a tenant reads name no quota, webhook, policy or user of the management cluster', async () => {
    await startAll();
    const { namespace } = tenant;
    const settled = await attack('settled');
    const { secret } = await scene.made(settled, { a: 'mine' });
    const texts: string[] = [];
    const read = async (object: Json, phase: string, message: RegExp): Promise<void> => {
      const seen = await scene.phase(object, phase, { api: user, message });
      texts.push(JSON.stringify(seen.status));
      const fieldSelector = `involvedObject.uid=${object.metadata.uid}`;
      texts.push(JSON.stringify(await admin.list(`/api/v1/namespaces/${namespace}/events`, { fieldSelector })));
    };
    {
      await using quota = await temporary({
        apiVersion: 'v1',
        kind: 'ResourceQuota',
        metadata: { name: 'hidden-quota', namespace },
        spec: { hard: { 'count/secrets': '1' } },
      });
      // No quota controller runs here, so the test writes the counts of the quota.
      const status = { hard: { 'count/secrets': '1' }, used: { 'count/secrets': '1' } };
      await admin.patch(`${quota.path}/status`, { status });
      await refusesSecrets(namespace, 403, quota.path);
      await read(await attack('over-quota'), 'Failed', /a quota of the namespace is used up/);
    }
    {
      const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['secrets'] };
      await using webhook = await temporary({
        apiVersion: 'admissionregistration.k8s.io/v1',
        kind: 'ValidatingWebhookConfiguration',
        metadata: { name: 'hidden-webhook' },
        webhooks: [
          {
            name: 'deny.hidden.example',
            // No server listens at this address.
            clientConfig: { url: 'https://127.0.0.1:9/hidden' },
            rules: [rule],
            sideEffects: 'None',
            admissionReviewVersions: ['v1'],
            timeoutSeconds: 1,
          },
        ],
      });
      await refusesSecrets('default', 500, webhook.path);
      await read(await attack('webhook'), 'Failed', /the API server refused it/);
    }
    await using policy = await refuse(admin, 'hidden-policy', {
      when: `request.namespace == '${namespace}'`,
      operations: ['CREATE', 'UPDATE', 'DELETE'],
      words: `'hidden words about ' + request.name`,
    });
    await read(await attack('policy'), 'Failed', /an admission policy or webhook refused it/);
    await user.delete(syncSecretPath(namespace, 'settled'));
    await read(settled, 'Terminating', /an admission policy or webhook refused it/);
    for (const text of texts) assert.doesNotMatch(text, /hidden/);
    await policy[Symbol.asyncDispose]();
    await user.delete(syncSecretPath(namespace, 'policy'));
    await scene.gone(admin, secret, settled);
  });
});
