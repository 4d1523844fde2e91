/**
 * Tests one cluster that is both the tenant's and the management cluster, with the synchronizer. CCM and manager run in
 * one process or in two. Each SyncSecret always has one copy and one Secret, and each status has one writer.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { Json, TestApi } from '../../support/api.ts';
import type { AuditEntry } from '../../support/audit-log.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { rowsOf } from '../../support/long.ts';
import { serviceAccountUser } from '../../support/service-account.ts';
import {
  CCM_ACCOUNT,
  HOME,
  installCcm,
  installManager,
  installTenant,
  MANAGER_ACCOUNT,
} from '../../support/sync-secret-install.ts';
import { waitFor } from '../../support/wait-for.ts';
import type { WatchEvent } from '../../support/watcher.ts';
import { isWrite, lineOf, Requests } from './requests.ts';
import { OFFERED, ORIGINAL_FINALIZER, pathOf, secretPath, syncSecretPath } from './support.ts';

const TENANT = 'one';
const AWAY = `tenant-${TENANT}`;
/** The namespace of another tenant, whose CCM runs in another cluster. */
const OTHER_AWAY = 'tenant-two';
const APP = 'app';
const FINALIZER = 'kubelb.k8c.io/lb-finalizer';
const API = '/apis/kubelb.k8c.io/v1alpha1/syncsecrets';
const VALUE = Buffer.from('value').toString('base64');
const CHANGED = Buffer.from('changed').toString('base64');
/** The user of the process that is both CCM and manager. */
const BOTH = 'both';
const CCM = serviceAccountUser(HOME, CCM_ACCOUNT);
const MANAGER = serviceAccountUser(HOME, MANAGER_ACCOUNT);
const CCM_AWAY = serviceAccountUser(AWAY, CCM_ACCOUNT);

let plane: ControlPlane;
let api: TestApi;
const kubeconfigs = { ccm: '', manager: '', both: '', away: '' };
let programs: Keyferry[] = [];

before(async () => {
  plane = await startControlPlane({ audit: true, controllerManager: false, crds: true, users: [{ name: BOTH }] });
  api = plane.api;
  const [ccm, manager, away] = [await installCcm(plane), await installManager(plane), await installTenant(plane, AWAY)];
  await api.createNamespaces([APP, OTHER_AWAY]);
  const roles = ['keyferry-syncsecret-ccm', 'keyferry-syncsecret-synchronizer', 'keyferry-syncsecret-manager'];
  await api.apply(roles.map((role) => bindingOf(role)));
  const tokens = { ccm, manager, away, both: plane.tokenFor(BOTH) };
  for (const [who, token] of Object.entries(tokens)) {
    kubeconfigs[who as keyof typeof kubeconfigs] = await plane.writeKubeconfig({ token });
  }
});
after(async () => await plane.stop());
afterEach(async () => {
  for (const object of await api.list(API)) await remove({ ...object, kind: 'SyncSecret' });
  for (const namespace of [APP, AWAY, OTHER_AWAY]) {
    for (const object of await api.list(`/api/v1/namespaces/${namespace}/secrets`))
      await remove({ ...object, kind: 'Secret' });
  }
});

function bindingOf(role: string): Json {
  const apiGroup = 'rbac.authorization.k8s.io';
  return {
    apiVersion: `${apiGroup}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name: `${role}-both` },
    roleRef: { apiGroup, kind: 'ClusterRole', name: role },
    subjects: [{ apiGroup, kind: 'User', name: BOTH }],
  };
}

/** Deletes an object at once, even if it has finalizers. */
async function remove(object: Json): Promise<void> {
  const path = pathOf(object);
  await api.raw('PATCH', path, {
    body: { metadata: { finalizers: null } },
    contentType: 'application/merge-patch+json',
  });
  await api.delete(path);
}

/** Functions that start the programs, by the name of the program. */
type Programs = Readonly<Record<string, () => Promise<Keyferry>>>;

const ccmAndManager = {
  ccm: () =>
    Keyferry.start({
      command: 'syncsecret-ccm',
      kubeconfig: kubeconfigs.ccm,
      args: [
        `--cluster-name=${TENANT}`,
        `--kubelb-kubeconfig=${kubeconfigs.away}`,
        '--enable-secret-synchronizer',
        '--enable-leader-election=false',
      ],
    }),
  manager: () =>
    Keyferry.start({
      command: 'syncsecret-manager',
      kubeconfig: kubeconfigs.manager,
      args: ['--enable-leader-election=false', '--served-namespaces=tenant-.*'],
    }),
} satisfies Programs;

const both = {
  both: () =>
    Keyferry.start({
      kubeconfig: kubeconfigs.both,
      args: [
        '--controllers=syncsecret-manager,syncsecret-ccm',
        `--syncsecret-cluster-name=${TENANT}`,
        `--syncsecret-kubelb-kubeconfig=${kubeconfigs.away}`,
        '--syncsecret-enable-secret-synchronizer',
      ],
    }),
} satisfies Programs;

async function start(of: Programs): Promise<void> {
  const started = await Promise.all(Object.values(of).map(async (one) => await one()));
  programs.push(...started);
  await Promise.all(started.map(async (one) => await one.ready()));
}

async function stop(how: 'stop' | 'kill9'): Promise<void> {
  await Promise.all(programs.map(async (one) => await one[how]()));
  programs = [];
}

const tail = (): string => programs.map(({ output }) => output.split('\n').slice(-12).join('\n')).join('\n---\n');

const requests = (): Requests =>
  new Requests(
    [CCM, CCM_AWAY, MANAGER, BOTH].map((user) => [plane, user] as const),
    tail,
  );

async function syncSecret(namespace: string, name: string, more: Json = {}): Promise<Json> {
  return await api.create({
    apiVersion: 'kubelb.k8c.io/v1alpha1',
    kind: 'SyncSecret',
    data: { a: VALUE },
    ...more,
    metadata: { ...more.metadata, namespace, name },
  });
}

async function offered(name: string, more: Json = {}): Promise<Json> {
  const metadata = { labels: OFFERED, ...more.metadata, namespace: APP, name };
  return await api.create({ apiVersion: 'v1', kind: 'Secret', data: { a: VALUE }, ...more, metadata });
}

const uidOf = ({ metadata }: Json): string => metadata.uid;

/** Waits until a SyncSecret is Synced, and copy and Secret have this value. @returns SyncSecret, copy and Secret */
async function synced(name: string, value = VALUE): Promise<{ object: Json; copy: Json; secret: Json }> {
  let seen: Json;
  const look = async (): Promise<{ object: Json; copy: Json; secret: Json } | false> => {
    const object = (seen = await api.find(syncSecretPath(APP, name)));
    const copy = object && (await api.find(syncSecretPath(AWAY, uidOf(object))));
    const secret = copy && (await api.find(secretPath(AWAY, uidOf(copy))));
    return secret?.data?.a === value && isSynced(object) && { object, copy, secret };
  };
  return await waitFor(look, { message: () => `${name}, which is ${JSON.stringify(seen?.status)}\n${tail()}` });
}

const isSynced = ({ metadata, status }: Json): boolean =>
  status?.phase === 'Synced' && status.observedGeneration === metadata.generation;

/** Records the SyncSecrets and Secrets that are created or deleted. */
class History implements AsyncDisposable {
  readonly lines: string[] = [];
  readonly #watches: AsyncDisposable[] = [];

  static async begin(): Promise<History> {
    const history = new History();
    const note = ({ type, object: { kind, metadata } }: WatchEvent): void => {
      if (type !== 'MODIFIED') history.lines.push(`${type} ${kind} ${metadata.namespace}/${metadata.name}`);
    };
    for (const path of [API, '/api/v1/secrets']) history.#watches.push(await api.watch(path, note));
    return history;
  }

  /** Checks that exactly these objects were created, and no object was deleted. */
  async assertCreated(...objects: readonly Json[]): Promise<void> {
    const lines = objects.map(({ kind, metadata }) => `ADDED ${kind} ${metadata.namespace}/${metadata.name}`);
    await waitFor(() => this.lines.length >= lines.length, { message: 'the events of the watches' });
    assert.deepEqual(this.lines.toSorted(), lines.toSorted(), tail());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const watch of this.#watches) await watch[Symbol.asyncDispose]();
  }
}

/** The users that wrote objects of this resource in a namespace. */
const writersOf = (entries: readonly AuditEntry[], resource: string, namespace: string): string[] => [
  ...new Set(
    entries
      .filter((entry) => isWrite(entry) && entry.resource === resource && entry.namespace === namespace)
      .map(({ user }) => user),
  ),
];

for (const [title, kind] of rowsOf(Object.entries({ 'in two processes': ccmAndManager, 'in one process': both }))) {
  describe(`one cluster for both roles, ${title}`, () => {
    after(async () => await stop('kill9'));

    it(`with CCM and manager in one cluster (${title}), KubeLB's objects are adopted, although their labels offer every Secret to the synchronizer`, async () => {
      const finalizers = [ORIGINAL_FINALIZER];
      const secret = await offered('old', { metadata: { labels: OFFERED, finalizers } });
      const origin = { 'kubelb.k8c.io/origin-name': 'old', 'kubelb.k8c.io/origin-ns': APP };
      const labels = { ...OFFERED, ...origin };
      const object = await syncSecret(APP, 'old', { type: 'Opaque', metadata: { labels, finalizers } });
      const copy = await syncSecret(AWAY, uidOf(object), { type: 'Opaque', metadata: { labels, finalizers } });
      const made = await secretOf(copy, { labels });
      await using history = await History.begin();
      await start(kind);
      const chain = await synced('old');
      assert.deepEqual([chain.object, chain.copy, chain.secret].map(uidOf), [object, copy, made].map(uidOf));
      await requests().settled();
      await history.assertCreated();
      assert.equal((await api.get(pathOf(secret))).metadata.finalizers, undefined);
      await api.delete(pathOf(secret));
      await waitFor(async () => (await api.list(API)).length === 0, { message: () => `nothing to be left\n${tail()}` });
      assert.equal(await api.find(pathOf(made)), undefined);
    });

    it(`with CCM and manager in one cluster (${title}), each SyncSecret has one copy, one Secret and one writer of its status`, async () => {
      const names = Array.from({ length: 10 }, (_, index) => `n${index}`);
      await requests().settled();
      const later = requests().fromNow();
      await using history = await History.begin();
      const labels = { labels: { 'kubelb.k8c.io/managed-by': 'kubelb' } };
      await Promise.all(names.map(async (name) => await syncSecret(APP, name, { metadata: labels })));
      const secrets = await Promise.all(names.map(async (name) => await offered(`s-${name}`)));
      const all = [...names, ...names.map((name) => `s-${name}`)];
      const chains = await Promise.all(all.map(async (name) => await synced(name)));
      await requests().settled();
      await history.assertCreated(...secrets, ...chains.flatMap(({ object, copy, secret }) => [object, copy, secret]));
      for (const { object, copy } of chains) {
        assert.deepEqual([object.metadata.finalizers, copy.metadata.finalizers], [[FINALIZER], [FINALIZER]]);
      }
      if (kind === ccmAndManager) {
        const entries = later();
        assert.deepEqual(writersOf(entries, 'syncsecrets', APP), [CCM]);
        assert.deepEqual(writersOf(entries, 'syncsecrets/status', APP), [CCM]);
        assert.deepEqual(writersOf(entries, 'syncsecrets/status', AWAY), [MANAGER]);
        assert.deepEqual(writersOf(entries, 'secrets', AWAY), [MANAGER]);
      }
      const conflicts = later()
        .filter(({ code }) => code === 409)
        .map(lineOf);
      assert.deepEqual(conflicts, [], 'the roles do not write the same objects');
      await requests().assertNone(async () => {
        await stop('kill9');
        await start(kind);
      });

      await api.patch(syncSecretPath(APP, 'n0'), { data: { a: CHANGED } });
      await api.patch(secretPath(APP, 's-n0'), { data: { a: CHANGED } });
      await Promise.all(['n0', 's-n0'].map(async (name) => await synced(name, CHANGED)));
      // One has got the labels of a copy meanwhile.
      const ofCopy = { 'kubelb.k8c.io/origin-name': 'other', 'kubelb.k8c.io/origin-ns': APP };
      await api.patch(syncSecretPath(APP, 'n1'), { metadata: { labels: ofCopy } });
      for (const name of names) await api.delete(syncSecretPath(APP, name));
      for (const name of names) await api.delete(secretPath(APP, `s-${name}`));
      const left = async (): Promise<number> =>
        (await api.list(API)).length + (await api.list(`/api/v1/namespaces/${AWAY}/secrets`)).length;
      await waitFor(async () => (await left()) === 0, { message: () => `nothing to be left\n${tail()}` });
    });
  });
}

/** Creates the Secret that KubeLB would make of a SyncSecret in the management cluster. */
async function secretOf({ metadata: { namespace, name, uid } }: Json, metadata: Json): Promise<Json> {
  const ownerReferences = [{ apiVersion: 'kubelb.k8c.io/v1alpha1', kind: 'SyncSecret', name, uid }];
  return await api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'Opaque',
    data: { a: VALUE },
    metadata: { ...metadata, namespace, name: uid, ownerReferences },
  });
}

describe('a manager in one cluster with a CCM', () => {
  after(async () => await stop('kill9'));

  it('a CCM leaves the namespaces of a manager in its process to that manager, and makes no copies of copies', async () => {
    await start(both);
    await using history = await History.begin();
    const direct = await Promise.all([syncSecret(OTHER_AWAY, 'direct'), syncSecret(AWAY, 'direct')]);
    const isDone = async (object: Json): Promise<boolean> => isSynced(await api.get(pathOf(object)));
    for (const object of direct) await waitFor(() => isDone(object), { message: () => `the status\n${tail()}` });
    await requests().settled();
    const secrets = direct.map((object) => {
      return { kind: 'Secret', metadata: { namespace: object.metadata.namespace, name: uidOf(object) } };
    });
    await history.assertCreated(...direct, ...secrets);
    await requests().assertNone(async () => {
      await stop('kill9');
      await start(both);
    });
  });
});
