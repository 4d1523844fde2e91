/**
 * Permissions in one form, `group/resource: verbs`, whether they come from a manifest or from the API server's report.
 */
import assert from 'node:assert/strict';
import { parseAllDocuments } from 'yaml';

import type { TestApi } from './api.ts';
import type { AuditEntry } from './audit-log.ts';
import { waitFor } from './wait-for.ts';

/** Verbs with which a client could get more rights, or delete whole collections. */
const POWERS = new Set(['*', 'escalate', 'bind', 'impersonate', 'deletecollection']);

/** A permission as text: `group/resource/subresource name: verbs`. */
const RIGHT = /^([^/]+)\/([^/ :]+)(?:\/([^ :]+))?(?: ([^:]+))?: (.+)$/;

/**
 * Calls that a test may never see: repeated events are patched after minutes, and lists are sent only to servers before
 * Kubernetes 1.34.
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

/** The permissions of each role in a manifest, by `kind name`. @throws AssertionError for a rule that is not about resources */
export function rolesIn(manifest: string): Record<string, string[]> {
  const roles = objectsIn(manifest).filter(({ kind }) => kind.endsWith('Role'));
  return Object.fromEntries(roles.map(({ kind, metadata, rules }) => [`${kind} ${metadata.name}`, rightsOf(rules)]));
}

export function bindingsIn(manifest: string): Binding[] {
  return objectsIn(manifest)
    .filter(({ kind }) => kind.endsWith('Binding'))
    .map(({ kind, roleRef, subjects = [] }) => ({ text: `${kind} ${roleRef?.kind} ${roleRef?.name}`, subjects }));
}

/** Permissions as `resource verb`, the form in which an audit log shows their use. */
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
 * Checks that no request of a program was refused, and that all of them are among the granted calls.
 * @param needed - calls of which each must have been sent, except those in RARE
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
 * The permissions of the client's user in a namespace, by the server's report, without those of every user.
 * @throws AssertionError for a verb in POWERS
 */
export async function reviewRights(client: TestApi, namespace: string): Promise<string[]> {
  const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace } };
  const { status } = await client.call('POST', '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', { body });
  const rules: Rule[] = status.resourceRules;
  assert.deepEqual(
    rules.filter(({ verbs }) => verbs.some((verb) => POWERS.has(verb))),
    [],
  );
  // Every user may ask for its own permissions, so those for that are left out.
  return rightsOf(rules.filter(({ apiGroups }) => !/^auth(?:orization|entication)\./.test(apiGroups?.[0] ?? '')));
}

/**
 * Waits until the server grants a user these permissions in a namespace: a role or binding is in force a moment after
 * it is created.
 * @param admin - the client that asks. The user's own client is not used, because tests count its requests.
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
