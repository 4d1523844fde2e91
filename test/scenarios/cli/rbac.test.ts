/** deploy/rbac.yaml grants enough for the whole first scenario, and no permission that is never used. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { parseAllDocuments } from 'yaml';

import { readCrds } from '../../../scripts/crd/read-crds.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { waitFor } from '../../support/wait-for.ts';
import { mirror, namespace, secret } from './objects.ts';
import { startOperator } from './operator-process.ts';

const RBAC = path.join(import.meta.dirname, '../../../deploy/rbac.yaml');
const USER = 'system:serviceaccount:keyferry:keyferry';
const MIRROR = '/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/mysecret-mirror';
/** Repeated events are patched only after minutes. Lists are used only on servers before Kubernetes 1.34, which cannot stream the first list. */
const RARE = new Set(['events patch', 'namespaces list', 'secrets list', 'secretmirrors list']);

/** Every permission in deploy/rbac.yaml. A change must be visible in a diff, with its reason. */
const GOLDEN: Readonly<Record<string, readonly string[]>> = {
  'ClusterRole keyferry': [
    'core/namespaces: list watch',
    'core/secrets: get list watch create patch delete',
    'mirrors.kts.studio/secretmirrors: get list watch patch',
    'mirrors.kts.studio/secretmirrors/status: patch',
    'core/events: create patch',
  ],
  'ClusterRole keyferry-replicator': ['core/configmaps: get list watch create patch delete'],
  'ClusterRole keyferry-vault-kubernetes-auth': ['core/serviceaccounts/token: create'],
  'Role keyferry-leader-election': ['coordination.k8s.io/leases: get create update'],
};
/** The roles that are bound, and only to Keyferry. */
const BOUND = [
  'ClusterRoleBinding ClusterRole keyferry-replicator',
  'ClusterRoleBinding ClusterRole keyferry',
  'RoleBinding Role keyferry-leader-election',
];
/** Verbs that allow privilege escalation. */
const POWERS = new Set(['*', 'escalate', 'bind', 'impersonate', 'deletecollection']);

/** For other scenarios than SecretMirrors between namespaces; they have their own tests. */
const OPTIONAL = new Set(['keyferry-replicator', 'keyferry-vault-kubernetes-auth']);

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly verbs: readonly string[];
  readonly nonResourceURLs?: readonly string[];
}

interface Role {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly object[];
}

interface AuditLine {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly apiGroup?: string; readonly resource: string; readonly subresource?: string };
  readonly responseStatus?: { readonly code: number };
  readonly requestURI: string;
}

describe('deploy/rbac.yaml', () => {
  let plane: ControlPlane;
  before(async () => {
    const groups = ['system:serviceaccounts', 'system:serviceaccounts:keyferry', 'system:authenticated'];
    plane = await startControlPlane({ controllerManager: false, audit: true, users: [{ name: USER, groups }] });
  });
  after(() => plane.stop());

  it('lets a ServiceAccount do all that SecretMirrors need', async () => {
    const manifest = await readFile(RBAC, 'utf8');
    await plane.api.apply(readCrds());
    await plane.api.apply(manifest);
    const kubeconfig = await plane.writeKubeconfig({ token: plane.tokenFor(USER) });
    const operator = await startOperator(plane, kubeconfig);
    try {
      await firstScenario();
    } finally {
      await operator.stop();
    }
    const { used, refused } = await requests();
    assert.deepEqual(refused, []);
    const granted = grantedBy(parseAllDocuments(manifest).map((document) => document.toJS() as Role));
    assert.deepEqual(
      [...used].filter((call) => !granted.has(call)),
      [],
      'done without a rule',
    );
    const idle = [...granted].filter((call) => !used.has(call) && !RARE.has(call));
    assert.deepEqual(idle, [], 'granted and never used');
  });

  it('grants these permissions and no other', async () => {
    const objects = parseAllDocuments(await readFile(RBAC, 'utf8')).map((document) => document.toJS() as Role);
    const roles = objects.filter(({ kind }) => kind.endsWith('Role'));
    const given = roles.map(({ kind, metadata, rules }) => [`${kind} ${metadata.name}`, rightsOf(rules)]);
    assert.deepEqual(Object.fromEntries(given), GOLDEN);
    const bindings = objects.filter(({ kind }) => kind.endsWith('Binding'));
    assert.deepEqual(
      bindings.map(({ kind, roleRef }) => `${kind} ${roleRef?.kind} ${roleRef?.name}`),
      BOUND,
    );
    const keyferry = { kind: 'ServiceAccount', name: 'keyferry', namespace: 'keyferry' };
    for (const { subjects } of bindings) assert.deepEqual(subjects, [keyferry]);
  });

  it('grants nothing else outside of its namespace, as reported by the server', async () => {
    await plane.api.apply(readCrds());
    await plane.api.apply(await readFile(RBAC, 'utf8'));
    using own = plane.client({ user: USER });
    const review = async (namespace: string): Promise<string[]> => {
      const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace } };
      const { status } = await own.call('POST', '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', { body });
      const rules: Rule[] = status.resourceRules;
      assert.deepEqual(
        rules.filter(({ verbs }) => verbs.some((verb) => POWERS.has(verb))),
        [],
      );
      // Permissions of every authenticated user: reviews of its own access.
      return rightsOf(rules.filter(({ apiGroups }) => !/^auth(?:orization|entication)\./.test(apiGroups?.[0] ?? '')));
    };
    const everywhere = [
      ...(GOLDEN['ClusterRole keyferry'] ?? []),
      ...(GOLDEN['ClusterRole keyferry-replicator'] ?? []),
    ];
    const bound = async (): Promise<boolean> => (await review('kube-system')).length === everywhere.length;
    await waitFor(bound, { message: 'the bindings to be in force' });
    assert.deepEqual((await review('kube-system')).sort(), everywhere.toSorted());
    const leases = GOLDEN['Role keyferry-leader-election'] ?? [];
    assert.deepEqual((await review('keyferry')).sort(), [...everywhere, ...leases].sort());
  });

  async function firstScenario(): Promise<void> {
    const { api } = plane;
    const copy = (where: string): string => `/api/v1/namespaces/${where}/secrets/mysecret`;
    await api.create(mirror('mysecret-mirror', 'mysecret', ['project-a-.+', 'project-b-.+']));
    await waitFor(async () => (await api.get(MIRROR)).status?.mirrorStatus === 'Pending');
    await api.create(secret('default', 'mysecret', 'one'));
    await waitFor(async () => (await api.get(MIRROR)).status?.mirrorStatus === 'Active');
    for (const name of ['project-a-main', 'project-b-main']) {
      await api.create(namespace(name));
      await waitFor(async () => await api.find(copy(name)), { message: copy(name) });
    }
    await api.patch(copy('default'), { stringData: { password: 'two' } });
    const two = Buffer.from('two').toString('base64');
    await waitFor(async () => (await api.get(copy('project-a-main'))).data.password === two);
    await api.patch(MIRROR, { spec: { destination: { namespaces: ['project-a-.+'] } } });
    await waitFor(async () => (await api.find(copy('project-b-main'))) === undefined, { message: 'a copy to go' });
    await api.delete(MIRROR);
    await waitFor(async () => (await api.find(MIRROR)) === undefined, { message: 'the mirror to go' });
    assert.equal(await api.find(copy('project-a-main')), undefined);
  }

  /** The calls of the test's user as `resource verb`, and the refused ones. */
  async function requests(): Promise<{ used: ReadonlySet<string>; refused: readonly string[] }> {
    const used = new Set<string>();
    const refused: string[] = [];
    for (const line of (await readFile(plane.auditLogPath, 'utf8')).trim().split('\n')) {
      const { user, verb, objectRef, responseStatus, requestURI } = JSON.parse(line) as AuditLine;
      if (user.username !== USER || objectRef === undefined) continue;
      const { resource, subresource } = objectRef;
      used.add(`${resource}${subresource === undefined ? '' : `/${subresource}`} ${verb}`);
      if (responseStatus?.code === 403) refused.push(`${verb} ${requestURI}`);
    }
    return { used, refused };
  }
});

/** `group/resource: verbs`, for each resource. @throws AssertionError if a rule is not about resources */
function rightsOf(rules: readonly Rule[] = []): string[] {
  return rules.flatMap(({ apiGroups = [], resources = [], verbs, nonResourceURLs }) => {
    assert.equal(nonResourceURLs, undefined);
    return apiGroups.flatMap((group) =>
      resources.map((resource) => `${group === '' ? 'core' : group}/${resource}: ${verbs.join(' ')}`),
    );
  });
}

function grantedBy(objects: readonly Role[]): ReadonlySet<string> {
  const granted = new Set<string>();
  for (const { kind, metadata, rules = [] } of objects) {
    if (!kind.endsWith('Role') || OPTIONAL.has(metadata.name)) continue;
    for (const { resources = [], verbs } of rules) {
      for (const resource of resources) for (const verb of verbs) granted.add(`${resource} ${verb}`);
    }
  }
  return granted;
}
