/**
 * Writes permissions as text, `group/resource: verbs`, so that those of a manifest and of the API server can be
 * compared.
 */
import assert from 'node:assert/strict';
import { parseAllDocuments } from 'yaml';

import type { TestApi } from './api.ts';
import type { AuditEntry } from './audit-log.ts';
import { waitFor } from './wait-for.ts';

/** Verbs with which a client could give itself more permissions, or delete whole collections. */
const POWERS = new Set(['*', 'escalate', 'bind', 'impersonate', 'deletecollection']);

/** A permission as text: `group/resource/subresource name: verbs`. */
const RIGHT = /^([^/]+)\/([^/ :]+)(?:\/([^ :]+))?(?: ([^:]+))?: (.+)$/;

/**
 * Calls that a test need not see: an event is patched only if it repeats after minutes, and only API servers before
 * 1.34 get lists.
 */
const RARE = /^events patch$| list$/;

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
  readonly nonResourceURLs?: readonly string[];
}

interface RbacObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly object[];
}

export interface Binding {
  /** The binding as text: `ClusterRoleBinding ClusterRole keyferry`. */
  readonly text: string;
  readonly subjects: readonly object[];
}

/**
 * The permissions of each role in a manifest. The key is kind and name: `ClusterRole keyferry`.
 * @throws AssertionError if a rule is not about resources
 */
export function rolesIn(manifest: string): Record<string, string[]> {
  const roles = objectsIn(manifest).filter(({ kind }) => kind.endsWith('Role'));
  return Object.fromEntries(roles.map(({ kind, metadata, rules }) => [`${kind} ${metadata.name}`, rightsOf(rules)]));
}

export function bindingsIn(manifest: string): Binding[] {
  return objectsIn(manifest)
    .filter(({ kind }) => kind.endsWith('Binding'))
    .map(({ kind, roleRef, subjects = [] }) => ({ text: `${kind} ${roleRef?.kind} ${roleRef?.name}`, subjects }));
}

/** Permissions as `resource verb`. An audit log shows requests in this form. */
export function callsOf(rights: readonly string[]): Set<string> {
  return new Set(
    rights.flatMap((right) => {
      const [what = '', verbs = ''] = right.split(': ');
      const resource = what.slice(what.indexOf('/') + 1).split(' ')[0] ?? '';
      return verbs.split(' ').map((verb) => `${resource} ${verb}`);
    }),
  );
}

/**
 * Checks that the API server refused no request of a program, and that each request is among the granted calls.
 * @param needed - calls that the program must have sent, except those in RARE
 */
export function assertUsed(
  requests: readonly AuditEntry[],
  granted: ReadonlySet<string>,
  needed: ReadonlySet<string> = new Set(),
): void {
  const refused = requests.filter(({ code }) => code === 403).map(({ verb, uri }) => `${verb} ${uri}`);
  assert.deepEqual(refused, []);
  const resources = requests.filter(({ resource }) => resource !== '');
  const used = new Set(resources.map(({ resource, verb }) => `${resource} ${verb}`));
  const ungranted = [...used].filter((call) => !granted.has(call));
  assert.deepEqual(ungranted, [], 'done without a rule');
  const unused = [...needed].filter((call) => !used.has(call) && !RARE.test(call));
  assert.deepEqual(unused, [], 'granted and never used');
}

/**
 * The permissions that a user has in a namespace, as the API server reports them. Those of every user are left out.
 * @throws AssertionError if a permission has a verb in POWERS
 */
export async function reviewRights(client: TestApi, namespace: string): Promise<string[]> {
  const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace } };
  const { status } = await client.call('POST', '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', { body });
  const rules: Rule[] = status.resourceRules;
  assert.deepEqual(
    rules.filter(({ verbs }) => verbs.some((verb) => POWERS.has(verb))),
    [],
  );
  // Left out: every user has permission to ask for its own permissions.
  return rightsOf(rules.filter(({ apiGroups }) => !/^auth(?:orization|entication)\./.test(apiGroups?.[0] ?? '')));
}

/**
 * Waits until the API server grants a user these permissions in a namespace. A new role or binding takes effect only
 * after a moment.
 * @param admin - the client that asks. (The user's own client would add requests that the test counts.)
 */
export async function waitForRights(
  admin: TestApi,
  user: { readonly user: string; readonly groups: readonly string[] },
  namespace: string,
  rights: readonly string[],
): Promise<void> {
  for (const right of rights) {
    const [, group = '', resource, subresource, name, verbs = ''] = RIGHT.exec(right) ?? [];
    for (const verb of verbs.split(' ')) {
      const resourceAttributes = { namespace, verb, group: group === 'core' ? '' : group, resource, subresource, name };
      const spec = { ...user, resourceAttributes };
      const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec };
      const isGranted = async (): Promise<boolean> =>
        (await admin.call('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', { body })).status.allowed;
      await waitFor(isGranted, { message: `${verb} of ${right} to be granted` });
    }
  }
}

function objectsIn(manifest: string): RbacObject[] {
  return parseAllDocuments(manifest).map((document) => document.toJS() as RbacObject);
}

function rightsOf(rules: readonly Rule[] = []): string[] {
  return rules.flatMap(({ apiGroups = [], resources = [], resourceNames = [], verbs, nonResourceURLs }) => {
    assert.equal(nonResourceURLs, undefined);
    const names = resourceNames.length === 0 ? '' : ` ${resourceNames.join(' ')}`;
    return apiGroups.flatMap((group) =>
      resources.map((resource) => `${group === '' ? 'core' : group}/${resource}${names}: ${verbs.join(' ')}`),
    );
  });
}
