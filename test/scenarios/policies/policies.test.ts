/**
 * Tests the three ValidatingAdmissionPolicies of the chart on a real API server with real users. Each policy is also
 * removed for a moment, to show what the policy prevents.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { Json, TestApi } from '../../support/api.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { longIt } from '../../support/long.ts';
import { requestToken, serviceAccountUser } from '../../support/service-account.ts';
import { waitFor } from '../../support/wait-for.ts';
import { CHART, helm, IMAGE, valueFlags } from '../chart/helm.ts';

const NAMESPACE = 'keyferry';
const MIRRORS = '/apis/mirrors.kts.studio/v1alpha2/namespaces/team-a/secretmirrors';
const BINDINGS = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings';
const ACCOUNT = 'kubernetes.io/service-account.name';
const BOOTSTRAP = 'bootstrap.kubernetes.io/token';
/** The types of Secrets that are credentials of the cluster, and a namespace where they are. */
const TOKENS = [
  ['kubernetes.io/service-account-token', 'team-b'],
  [BOOTSTRAP, 'kube-system'],
] as const;
const VALUES = {
  ...IMAGE,
  'mirrors.enabled': true,
  'replicator.enabled': true,
  'reflector.enabled': true,
  'configSyncer.enabled': true,
  'mittwald.enabled': true,
  'policies.requesterRights.enabled': true,
  'policies.fence.enabled': true,
  'policies.protectCopies.enabled': true,
  // The controller manager of the tests is a user in this group. It deletes the copies in a deleted namespace.
  'policies.protectCopies.groups': ['platform', 'system:masters'],
};

type Texts = Readonly<Record<string, string>>;

const REPLICATOR = 'k8s-replicator/';
const REFLECTOR = 'reflector.v1.k8s.emberstack.com/';
const AUTO = { [`${REFLECTOR}reflection-allowed`]: 'true', [`${REFLECTOR}reflection-auto-enabled`]: 'true' };
const INTO_B = { ...AUTO, [`${REFLECTOR}reflection-auto-namespaces`]: 'team-b' };
const MITTWALD = 'replicator.v1.mittwald.de/';

let plane: ControlPlane;
let operator: Keyferry | undefined;
/**
 * A user with all rights on Secrets, ConfigMaps and SecretMirrors in every namespace, and without the right
 * `copy-into`.
 */
let author: TestApi;
/** A user with the rights of `author` who is in the group `platform`. */
let platform: TestApi;
/** A client with a stolen token of Keyferry. */
let thief: TestApi;

before(async () => {
  plane = await startControlPlane({
    users: [
      { name: 'author', groups: ['authors'] },
      { name: 'platform', groups: ['authors', 'platform'] },
      { name: serviceAccountUser(NAMESPACE, 'keyferry'), groups: [] },
    ],
  });
  const { api } = plane;
  const args = ['install', 'keyferry', CHART, `--namespace=${NAMESPACE}`, '--create-namespace', ...valueFlags(VALUES)];
  const { code, stderr } = await helm(args, plane.kubeconfigPath);
  assert.equal(code, 0, stderr);
  await api.createNamespaces(['team-a', 'team-b', 'team-c', 'project-a-x']);
  await role('authors', ['', 'mirrors.kts.studio'], ['secrets', 'configmaps', 'secretmirrors'], ['*']);
  await bind('authors', 'authors');
  const token = await requestToken(api, NAMESPACE, 'keyferry');
  operator = await Keyferry.start({
    kubeconfig: await plane.writeKubeconfig({ token }),
    args: [
      '--controllers=mirrors,replicator,reflector,config-syncer,mittwald',
      '--leader-elect',
      `--leader-elect-namespace=${NAMESPACE}`,
    ],
  });
  await operator.ready();
  author = plane.client({ user: 'author' });
  platform = plane.client({ user: 'platform' });
  thief = plane.client({ token });
  await waitFor(async () => (await author.raw('GET', MIRRORS)).status === 200, { message: 'the role of the authors' });
  await secret('team-a', 'shared');
  await inForce();
});
after(async () => {
  author?.close();
  platform?.close();
  thief?.close();
  await operator?.kill9();
  await plane?.stop();
});

async function role(
  name: string,
  apiGroups: readonly string[],
  resources: readonly string[],
  verbs: readonly string[],
  resourceNames?: readonly string[],
): Promise<void> {
  await plane.api.create({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name },
    rules: [{ apiGroups, resources, verbs, ...(resourceNames === undefined ? {} : { resourceNames }) }],
  });
}

/** Grants the author the right to copy into these namespaces, from a namespace alone. */
async function bindIn(namespace: string, resourceNames: readonly string[]): Promise<void> {
  const name = 'copy-into';
  const metadata = { namespace, name };
  const apiVersion = 'rbac.authorization.k8s.io/v1';
  const rules = [{ apiGroups: ['keyferry.dev'], resources: ['namespaces'], verbs: ['copy-into'], resourceNames }];
  await plane.api.create({ apiVersion, kind: 'Role', metadata, rules });
  const apiGroup = 'rbac.authorization.k8s.io';
  const roleRef = { apiGroup, kind: 'Role', name };
  await plane.api.create({
    apiVersion,
    kind: 'RoleBinding',
    metadata,
    roleRef,
    subjects: [{ apiGroup, kind: 'Group', name: 'authors' }],
  });
}

async function bind(name: string, group: string): Promise<void> {
  await plane.api.create({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: group }],
  });
}

async function secret(namespace: string, name: string, more: Json = {}, client: TestApi = plane.api): Promise<Json> {
  const metadata = { namespace, name, ...more };
  return await client.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: { password: 'b25l' } });
}

const pathOf = (namespace: string, name: string): string => `/api/v1/namespaces/${namespace}/secrets/${name}`;

function mirror(name: string, namespaces: readonly string[]): Json {
  return {
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { namespace: 'team-a', name },
    spec: { source: { name: 'shared' }, destination: { namespaces } },
  };
}

/** Creates a Secret with the marks of a copy, as a thief does. */
async function plant(namespace: string, name: string, { metadata = {}, ...more }: Json): Promise<Json> {
  const labels = { 'keyferry.dev/copy': 'mirrors' };
  const annotations = { ...metadata.annotations, 'keyferry.dev/target': `${namespace}/${name}` };
  const marked = { ...metadata, namespace, name, labels, annotations };
  return await thief.create({ apiVersion: 'v1', kind: 'Secret', ...more, metadata: marked });
}

/** Creates a Secret that is a credential, with the marks of a copy, as a thief does. */
async function plantToken(type: string, namespace: string): Promise<Json> {
  return await plant(namespace, 'planted', { type, metadata: { annotations: { [ACCOUNT]: 'default' } } });
}

/** Annotations that fill an object up to the limit of the API server, and have no mark that the object is retained. */
function stuffed(annotations: Readonly<Record<string, string>>): Record<string, string | null> {
  const { 'keyferry.dev/retain': _, ...rest } = annotations;
  const key = 'example.com/stuffing';
  const used = Object.entries(rest).reduce((sum, [name, value]) => sum + name.length + value.length, key.length);
  return { 'keyferry.dev/retain': null, [key]: 'x'.repeat(256 * 1024 - used) };
}

/** Waits until the API server applies the new policies, which takes a moment. */
async function inForce(): Promise<void> {
  for (const [index, attempt] of [
    async () => await author.create(mirror('probe', ['nowhere'])),
    async () => await secret('team-b', 'probe', {}, thief),
    async () => await secret('team-b', 'probe-push', { annotations: { 'k8s-replicator/replicate-to': 'x/y' } }, author),
  ].entries()) {
    await waitFor(async () => await isRefused(attempt), { message: `policy ${index} to be in force` });
    await plane.api.raw('DELETE', `${MIRRORS}/probe`);
    await plane.api.raw('DELETE', pathOf('team-b', 'probe'));
    await plane.api.raw('DELETE', pathOf('team-b', 'probe-push'));
  }
}

async function isRefused(attempt: () => Promise<unknown>): Promise<boolean> {
  try {
    await attempt();
    return false;
  } catch (error) {
    return /denied|forbidden/.test(String(error));
  }
}

/** Runs `attempt` while the policy has no binding, and creates the binding again. */
async function without(policy: string, attempt: () => Promise<void>): Promise<void> {
  const { apiVersion, kind, metadata, spec } = await plane.api.get(`${BINDINGS}/${policy}`);
  await plane.api.delete(`${BINDINGS}/${policy}`);
  try {
    await attempt();
  } finally {
    await plane.api.create({ apiVersion, kind, metadata: { name: metadata.name }, spec });
  }
}

/** Waits until an attempt succeeds, because the API server needs a moment to notice a removed policy or a new right. */
async function succeeds(attempt: () => Promise<unknown>, message: string): Promise<void> {
  await waitFor(async () => !(await isRefused(attempt)), { message });
}

describe('the requester policy', () => {
  it('the requester policy refuses a SecretMirror into a namespace where its author lacks the right copy-into, and names author and namespace', async () => {
    await assert.rejects(
      author.create(mirror('far', ['team-a', 'team-b'])),
      /namespaces\[1\]: author needs the verb copy-into on the resource namespaces of the API group keyferry\.dev, with the resource name team-b/,
    );
  });

  it('a RoleBinding in the namespace of the rule gives the right copy-into to rules there, and to no others', async () => {
    const annotations = { 'k8s-replicator/replicate-to': 'team-b/bound' };
    const there = { ...mirror('bound', ['team-b']), metadata: { namespace: 'team-c', name: 'bound' } };
    const refusal =
      /: author needs .* with the resource name team-b: bind a Role or ClusterRole with it, by a RoleBinding in the namespace team-c or by a ClusterRoleBinding/;
    await assert.rejects(author.create(there), refusal);
    await assert.rejects(secret('team-c', 'bound', { annotations }, author), refusal);
    await bindIn('team-c', ['team-b']);
    await succeeds(() => author.create(there), 'the right to copy from team-c');
    await secret('team-c', 'bound', { annotations }, author);
    await assert.rejects(author.create(mirror('bound', ['team-b'])), /name team-b: .* in the namespace team-a/);
    await assert.rejects(secret('team-a', 'bound', { annotations }, author), /name team-b: .* in the namespace team-a/);
    await author.delete('/apis/mirrors.kts.studio/v1alpha2/namespaces/team-c/secretmirrors/bound');
    await author.delete(pathOf('team-c', 'bound'));
  });

  it('the requester policy reads the right copy-into from RBAC; a pattern needs a right with the same text as its name', async () => {
    await role('copy-into', ['keyferry.dev'], ['namespaces'], ['copy-into'], ['team-b', 'project-a-.+']);
    await bind('copy-into', 'authors');
    await succeeds(() => author.create(mirror('allowed', ['team-b', 'project-a-.+'])), 'the right to copy');
    await assert.rejects(author.create(mirror('wider', ['project-.+'])), /project-\.\+/);
    await copied('team-b', 'shared');
    await copied('project-a-x', 'shared');
  });

  it('for an update of a SecretMirror, the requester policy checks rights only if source or destination change', async () => {
    await author.patch(`${MIRRORS}/allowed`, { metadata: { labels: { a: 'b' } }, spec: { pollPeriodSeconds: 60 } });
    const namespaces = ['team-b', 'project-a-.+', 'kube-system'];
    await assert.rejects(author.patch(`${MIRRORS}/allowed`, { spec: { destination: { namespaces } } }), /kube-system/);
  });

  it('when a SecretMirror is deleted, the requester policy does not stop Keyferry from removing its finalizer', async () => {
    await author.create(mirror('passing', ['team-b']));
    await author.delete(`${MIRRORS}/passing`);
    await waitFor(async () => (await plane.api.find(`${MIRRORS}/passing`)) === undefined, { message: 'its deletion' });
  });

  it('the requester policy refuses a SecretMirror with more than 24 entries in namespaces, because the API server checks each entry', async () => {
    const many = Array.from({ length: 25 }, () => 'team-b');
    await assert.rejects(author.create(mirror('many', many)), /24 entries at most/);
    await author.create(mirror('as-many', many.slice(1)));
    await author.delete(`${MIRRORS}/as-many`);
  });

  /** For each system: what is refused for which namespace, what the author may do, and what is too wide as a change. */
  const REQUESTS: Readonly<Record<string, readonly [refused: readonly (readonly [Texts, string])[], Texts, Texts]>> = {
    'k8s-replicator': [
      [
        [{ [`${REPLICATOR}replicate-to`]: 'kube-system/stolen' }, 'kube-system'],
        [{ [`${REPLICATOR}replicate-to-namespaces`]: '.*' }, '.*'],
        [{ [`${REPLICATOR}replicate-to-namespaces`]: 'team-b, default' }, 'default'],
      ],
      { [`${REPLICATOR}replicate-to`]: 'team-b/pushed,here' },
      { [`${REPLICATOR}replicate-to`]: 'default/x' },
    ],
    reflector: [
      [
        [{ ...AUTO, [`${REFLECTOR}reflection-auto-namespaces`]: 'team-b, default' }, 'default'],
        [AUTO, '.*'],
        [{ ...INTO_B, [`${REFLECTOR}reflection-auto-namespaces-selector`]: 'a=b' }, '.*'],
      ],
      INTO_B,
      { [`${REFLECTOR}reflection-auto-namespaces`]: 'default' },
    ],
    'kubernetes-replicator': [
      [
        [{ [`${MITTWALD}replicate-to`]: 'team-b, default' }, 'default'],
        [{ [`${MITTWALD}replicate-to`]: 'team-b', [`${MITTWALD}replicate-to-matching`]: 'a=b' }, '.*'],
      ],
      { [`${MITTWALD}replicate-to`]: 'team-b' },
      { [`${MITTWALD}replicate-to`]: 'default' },
    ],
  };
  for (const [system, [refused, permitted, wider]] of Object.entries(REQUESTS))
    it(`the requester policy checks pushes of ${system} when they are added or changed: lists, patterns and selectors`, async () => {
      const name = system === 'k8s-replicator' ? 'pushed' : `pushed-${system}`;
      for (const [annotations, namespace] of refused) {
        const needed = new RegExp(`name ${namespace.replace('.*', '\\.\\*')}`);
        await assert.rejects(secret('team-a', name, { annotations }, author), needed);
      }
      await secret('team-a', name, { annotations: permitted }, author);
      await copied('team-b', name);
      await author.patch(pathOf('team-a', name), { data: { password: 'dHdv' } });
      await assert.rejects(author.patch(pathOf('team-a', name), { metadata: { annotations: wider } }), /name default/);
    });

  it('of a source of reflector, the requester policy reads the list that decides, and none if it makes no mirrors', async () => {
    await secret(
      'team-a',
      'allowing',
      { annotations: { ...AUTO, [`${REFLECTOR}reflection-auto-enabled`]: 'false' } },
      author,
    );
    const narrow = { [`${REFLECTOR}reflection-allowed-namespaces`]: 'team-b', ...AUTO };
    await secret('team-a', 'narrow', { annotations: narrow }, author);
  });

  it('the requester policy checks sync of config-syncer: a selector needs the right to all namespaces', async () => {
    const given = (sync: string): Json => ({ annotations: { 'kubed.appscode.com/sync': sync } });
    for (const value of ['', 'kubernetes.io/metadata.name=team-b'])
      await assert.rejects(secret('team-a', 'synced', given(value), author), /name \.\*/);
    const far = { annotations: { 'kubed.appscode.com/sync-contexts': 'edge' } };
    await assert.rejects(secret('team-a', 'synced', far, author), /name \.\*/);
    await secret('team-a', 'synced', given('kubernetes.io/metadata.name=team-b'));
    await copied('team-b', 'synced');
    await author.patch(pathOf('team-a', 'synced'), { data: { password: 'dHdv' } });
    await assert.rejects(author.patch(pathOf('team-a', 'synced'), { metadata: given('') }), /name \.\*/);
  });

  longIt('the fence and the requester policy permit all that keys of kubernetes-replicator need', async () => {
    const keysOf = async (name: string): Promise<string> =>
      Object.keys((await plane.api.get(pathOf('team-b', name))).data ?? {})
        .toSorted()
        .join();
    const has = async (name: string, keys: string): Promise<void> => {
      await waitFor(async () => (await keysOf(name)) === keys, { message: `${name} with the keys ${keys}` });
    };
    const open = { [`${MITTWALD}replication-allowed`]: 'true', [`${MITTWALD}replication-allowed-namespaces`]: '.*' };
    await secret('team-a', 'opened', { annotations: open });
    await secret('team-b', 'pulls', { annotations: { [`${MITTWALD}replicate-from`]: 'team-a/opened' } });
    await has('pulls', 'password');
    await secret('team-b', 'accepts', { annotations: { 'keyferry.dev/accept-push': 'team-a' } });
    await plane.api.patch(pathOf('team-b', 'accepts'), { data: { own: 'eA==', password: null } });
    const to = { annotations: { [`${MITTWALD}replicate-to`]: 'team-b' } };
    await secret('team-a', 'accepts', to);
    await has('accepts', 'own,password');
    await secret('team-a', 'shared-keys', to);
    await has('shared-keys', 'password');
    await plane.api.patch(pathOf('team-b', 'accepts'), {
      metadata: { annotations: { 'keyferry.dev/accept-push': null } },
    });
    await has('accepts', 'own');
    await plane.api.patch(pathOf('team-b', 'accepts'), {
      metadata: { annotations: { 'keyferry.dev/accept-push': 'team-a' } },
    });
    await has('accepts', 'own,password');
    await plane.api.patch(pathOf('team-b', 'shared-keys'), { data: { own: 'eA==' } });
    for (const name of ['accepts', 'shared-keys']) {
      await plane.api.delete(pathOf('team-a', name));
      await has(name, 'own');
    }
    await plane.api.delete(pathOf('team-a', 'opened'));
    await has('pulls', '');
  });

  it('without the requester policy, an author can copy into every namespace', async () => {
    await without('keyferry-requester-rights-mirrors', async () => {
      await succeeds(() => author.create(mirror('unlimited', ['default'])), 'a SecretMirror into every namespace');
      await copied('default', 'shared');
      await author.delete(`${MIRRORS}/unlimited`);
    });
  });
});

describe('the fence policy', () => {
  it('with the fence policy, a stolen token of Keyferry cannot write objects that are no copies', async () => {
    await secret('team-b', 'of-a-user');
    await assert.rejects(secret('team-b', 'planted', {}, thief), /only with the label keyferry\.dev\/copy/);
    const labels = { 'keyferry.dev/copy': 'mirrors' };
    const annotations = { 'keyferry.dev/target': 'team-b/another' };
    await assert.rejects(secret('team-b', 'planted', { labels, annotations }, thief), /keyferry\.dev\/target/);
    await assert.rejects(thief.patch(pathOf('team-b', 'of-a-user'), { data: { x: 'eA==' } }), /only copies/);
    await assert.rejects(thief.patch(pathOf('team-b', 'of-a-user'), { metadata: { labels } }), /only copies/);
    await assert.rejects(thief.delete(pathOf('team-b', 'of-a-user')), /only copies/);
  });

  it('the fence policy permits all writes that Keyferry needs: to its copies, to filled objects, and to copies that the original programs made', async () => {
    const annotations = { 'k8s-replicator/replication-allowed': 'true' };
    await secret('team-a', 'open', { annotations });
    await secret('team-b', 'filled', { annotations: { 'k8s-replicator/replicate-from': 'team-a/open' } });
    await waitFor(
      async () =>
        (await plane.api.get(pathOf('team-b', 'filled'))).metadata.annotations[
          'k8s-replicator/replicated-from-version'
        ],
      {
        message: () => `the fill\n${operator?.output.split('\n').slice(-5).join('\n')}`,
      },
    );
    const mirrored = `${REFLECTOR}reflected-version`;
    await secret('team-b', 'mirror', { annotations: { [`${REFLECTOR}reflects`]: 'team-a/allowing' } });
    const byReflector = { [`${REFLECTOR}reflects`]: 'team-a/reflecting', [`${REFLECTOR}auto-reflects`]: 'True' };
    await secret('team-b', 'reflecting', { annotations: byReflector });
    const auto = {
      'reflection-allowed': 'true',
      'reflection-auto-enabled': 'true',
      'reflection-auto-namespaces': 'team-b',
    };
    const onSource = Object.entries(auto).map(([name, value]) => [`${REFLECTOR}${name}`, value]);
    await secret('team-a', 'reflecting', { annotations: Object.fromEntries(onSource) });
    for (const name of ['mirror', 'reflecting'])
      await waitFor(async () => (await plane.api.get(pathOf('team-b', name))).metadata.annotations[mirrored], {
        message: name,
      });
    const marks = { 'mirrors.kts.studio/owned-by': 'team-a/adopting' };
    await secret('team-b', 'adopted', { annotations: marks });
    await secret('team-a', 'adopted');
    const adopting = mirror('adopting', ['team-b']);
    await plane.api.create({ ...adopting, spec: { ...adopting.spec, source: { name: 'adopted' } } });
    await waitFor(
      async () => (await plane.api.get(pathOf('team-b', 'adopted'))).metadata.labels?.['keyferry.dev/copy'],
      {
        message: 'the adoption',
      },
    );
    await plane.api.delete(`${MIRRORS}/adopting`);
    await waitFor(async () => (await plane.api.find(pathOf('team-b', 'adopted'))) === undefined, {
      message: 'the deletion of the copy',
    });
  });

  for (const [type, namespace] of TOKENS) {
    it(`with the fence policy, a stolen token of Keyferry makes no Secret of type ${type}, also with the marks of a copy`, async () => {
      await assert.rejects(plantToken(type, namespace), new RegExp(`may not write a Secret of type ${type}`));
    });
  }

  it('with the fence policy, a stolen token of Keyferry cannot take the marks of a copy away', async () => {
    const annotations = {
      'mirrors.kts.studio/owned-by': 'team-a/allowed',
      'k8s-replicator/replicate-from': 'team-a/none',
    };
    await plant('team-a', 'held', { metadata: { annotations, finalizers: ['example.com/held'] } });
    for (const metadata of [
      { labels: { 'keyferry.dev/copy': null } },
      { annotations: { 'keyferry.dev/target': null } },
      { annotations: { 'keyferry.dev/target': 'team-b/held' } },
    ]) {
      await assert.rejects(thief.patch(pathOf('team-a', 'held'), { metadata }), /may not take the marks/);
    }
    await plane.api.patch(pathOf('team-a', 'held'), { metadata: { finalizers: null } });
  });

  it('with the fence policy, a stolen token of Keyferry cannot turn an object that asks to be filled into a copy, nor delete it', async () => {
    const annotations = { 'k8s-replicator/replicate-from': 'team-a/none' };
    await secret('team-b', 'asking', { annotations });
    const path = pathOf('team-b', 'asking');
    const place = { 'keyferry.dev/target': 'team-b/asking' };
    for (const metadata of [
      { labels: { 'keyferry.dev/copy': 'mirrors' }, annotations: place },
      { annotations: { 'mirrors.kts.studio/owned-by': 'team-a/none' } },
      { annotations: { 'k8s-replicator/replicated-by': 'team-a/none' } },
      { annotations: { 'k8s-replicator/replicate-from': null } },
    ]) {
      await assert.rejects(thief.patch(path, { metadata }), /only copies/);
    }
    await assert.rejects(thief.delete(path), /only copies/);
    // The garbage collector deletes an object whose owner does not exist.
    const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'none', uid: '0f0f0f0f-0000-4000-8000-000000000000' };
    for (const metadata of [
      { ownerReferences: [owner] },
      { finalizers: ['example.com/held'] },
      { labels: { 'argocd.argoproj.io/secret-type': 'cluster' } },
    ]) {
      await assert.rejects(thief.patch(path, { metadata }), /only copies/);
    }
    await assert.rejects(thief.patch(path, { immutable: true }), /only copies/);
    const [[type]] = TOKENS;
    await plane.api.create({
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { namespace: 'team-b', name: 'robot' },
    });
    const account = { ...annotations, [ACCOUNT]: 'robot' };
    await plane.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: 'team-b', name: 'asking-token', annotations: account },
      type,
    });
    const chosen = { metadata: { annotations: { [ACCOUNT]: 'default' } } };
    await assert.rejects(thief.patch(pathOf('team-b', 'asking-token'), chosen), /may not write a Secret of type/);
  });

  it('the fence policy lets Keyferry remove the finalizer of KubeLB from a Secret, and change nothing else there', async () => {
    const [[type]] = TOKENS;
    const finalizers = ['kubelb.k8c.io/cleanup', 'example.com/other'];
    await plane.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: 'team-b', name: 'offered', annotations: { [ACCOUNT]: 'default' }, finalizers },
      type,
    });
    const path = pathOf('team-b', 'offered');
    const without = { metadata: { finalizers: ['example.com/other'] } };
    await assert.rejects(thief.patch(path, { ...without, data: { x: 'eA==' } }), /only copies/);
    await assert.rejects(
      thief.patch(path, { metadata: { finalizers: [...finalizers, 'example.com/x'] } }),
      /only copies/,
    );
    await assert.rejects(thief.patch(path, { metadata: { annotations: { [ACCOUNT]: 'robot' } } }), /only copies/);
    await assert.rejects(thief.patch(path, { ...without, immutable: true }), /only copies/);
    await thief.patch(path, without);
    await plane.api.patch(path, { metadata: { finalizers: null } });
  });

  it('with the fence policy, a deleted mirror keeps a copy whose annotations have no room for the mark keyferry.dev/retain', async () => {
    const kept = mirror('keeping', ['team-b']);
    const destination = { namespaces: ['team-b'], name: 'kept' };
    await plane.api.create({ ...kept, spec: { ...kept.spec, destination, deletePolicy: 'retain' } });
    await copied('team-b', 'kept');
    const { uid, annotations } = (await plane.api.get(pathOf('team-b', 'kept'))).metadata;
    await plane.api.patch(pathOf('team-b', 'kept'), { metadata: { annotations: stuffed(annotations) } });
    await plane.api.delete(`${MIRRORS}/keeping`);
    await waitFor(async () => (await plane.api.find(`${MIRRORS}/keeping`)) === undefined, { message: 'its deletion' });
    const { metadata } = await plane.api.get(pathOf('team-b', 'kept'));
    assert.equal(metadata.uid, uid);
    assert.equal(metadata.annotations['mirrors.kts.studio/owned-by'], undefined);
  });

  it('without the fence policy, a stolen token of Keyferry can overwrite every Secret, and get the token of every ServiceAccount', async () => {
    await without('keyferry-fence', async () => {
      for (const [type, namespace] of TOKENS) {
        await succeeds(() => plantToken(type, namespace), `a Secret of type ${type}`);
        const filled = async (): Promise<unknown> => (await thief.get(pathOf(namespace, 'planted'))).data?.token;
        if (type !== BOOTSTRAP) await waitFor(filled, { message: 'the token that the control plane fills in' });
      }
      const write = async (): Promise<Json> =>
        await thief.patch(pathOf('team-b', 'of-a-user'), { data: { x: 'eA==' } });
      await succeeds(write, 'a write of the thief');
    });
  });
});

describe('the policy protect-copies', () => {
  it('the policy protect-copies lets only Keyferry and the named groups change or delete a copy', async () => {
    const copy = pathOf('team-b', 'shared');
    await copied('team-b', 'shared');
    await assert.rejects(author.patch(copy, { data: { password: 'eA==' } }), /which only Keyferry changes/);
    await assert.rejects(author.delete(copy), /which only Keyferry changes/);
    await assert.rejects(author.patch(copy, { metadata: { labels: { 'keyferry.dev/copy': null } } }), /only Keyferry/);
    await platform.patch(copy, { data: { password: 'eA==' } });
    await waitFor(async () => (await plane.api.get(copy)).data.password === 'b25l', { message: 'the repair' });
  });

  it('the policy protect-copies also protects the copies of annotated Secrets', async () => {
    await assert.rejects(author.delete(pathOf('team-b', 'pushed')), /which only Keyferry changes/);
  });

  it('the policy protect-copies lets only Keyferry mark an object as a copy, because Keyferry deletes copies without a rule', async () => {
    await secret('team-b', 'frozen');
    const path = pathOf('team-b', 'frozen');
    const annotations = { 'mirrors.kts.studio/owned-by': 'team-a/none', 'keyferry.dev/target': 'team-b/frozen' };
    const forged = { metadata: { labels: { 'keyferry.dev/copy': 'mirrors' }, annotations } };
    await assert.rejects(author.patch(path, forged), /metadata.annotations: only Keyferry marks/);
    for (const [key, value] of Object.entries({
      ...annotations,
      'k8s-replicator/replicated-by': 'team-a/shared',
      [`${REFLECTOR}auto-reflects`]: 'True',
    })) {
      await assert.rejects(author.patch(path, { metadata: { annotations: { [key]: value } } }), /only Keyferry marks/);
    }
    await without('keyferry-protect-copies', async () => {
      await succeeds(() => author.patch(path, forged), 'the forged marks');
      await waitFor(async () => (await plane.api.find(path)) === undefined, { message: 'the deletion of the orphan' });
      // The log of the deletion names the rule in the mark.
      await waitFor(() => operator?.output.includes('"rule":"mirrors:team-a/none"'), {
        message: 'the rule in the log',
      });
    });
  });

  it('the policy protect-copies lets a user change a Secret that has only the copy label, and a clone of a copy', async () => {
    await secret('team-b', 'labelled');
    const path = pathOf('team-b', 'labelled');
    await author.patch(path, { metadata: { labels: { 'keyferry.dev/copy': 'mirrors' } } });
    await author.patch(path, { data: { password: 'eA==' } });
    await author.delete(path);
    const { metadata, ...copy } = await plane.api.get(pathOf('team-b', 'shared'));
    const { labels, annotations } = metadata;
    await author.create({ ...copy, metadata: { name: 'clone', namespace: 'team-b', labels, annotations } });
    await author.delete(pathOf('team-b', 'clone'));
  });

  it('the policy protect-copies does not block the deletion of a namespace with copies', async () => {
    await plane.api.delete('/api/v1/namespaces/project-a-x');
    await waitFor(async () => (await plane.api.find('/api/v1/namespaces/project-a-x')) === undefined, {
      message: 'the namespace to go',
    });
  });

  it('without the policy protect-copies, an author can delete a copy', async () => {
    await without('keyferry-protect-copies', async () => {
      await succeeds(() => author.delete(pathOf('team-b', 'shared')), 'the deletion of a copy');
    });
  });
});

async function copied(namespace: string, name: string): Promise<void> {
  await waitFor(async () => (await plane.api.find(pathOf(namespace, name)))?.metadata.labels?.['keyferry.dev/copy'], {
    message: () => `the copy ${namespace}/${name}\n${operator?.output.split('\n').slice(-5).join('\n')}`,
  });
}
