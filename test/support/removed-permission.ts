/** Removes permissions from a role, one at a time, and gives them back. */
import type { Json, TestApi } from './api.ts';
import { waitFor } from './wait-for.ts';

/** A role, and the user to whom it is bound. */
export interface BoundRole {
  /** A client of an administrator. */
  readonly admin: TestApi;
  /** The path of the role. */
  readonly path: string;
  readonly user: string;
  /** A namespace in which the permissions are in force. For a ClusterRole it may be any. */
  readonly namespace: string;
}

/** A verb that stands in the role for a removed one. No request has it. */
const placeholder = (verb: string): string => `no-${verb}`;

/**
 * Removes a permission, and resolves when the server refuses such calls.
 * @param call - `<resource> <verb>`
 * @returns a function that gives the permission back, and resolves when it is in force
 */
export async function removePermission(role: BoundRole, call: string): Promise<() => Promise<void>> {
  const [resource = '', verb = ''] = call.split(' ');
  await replaceVerb(role, resource, verb, placeholder(verb));
  await inForce(role, call, false);
  return async () => {
    await replaceVerb(role, resource, placeholder(verb), verb);
    await inForce(role, call, true);
  };
}

async function replaceVerb({ admin, path }: BoundRole, resource: string, from: string, to: string): Promise<void> {
  const { rules } = await admin.get(path);
  const rule = rules.find(({ resources, verbs }: Json) => resources.includes(resource) && verbs.includes(from));
  if (rule === undefined) throw new Error(`${path} does not permit ${from} of ${resource}`);
  rule.verbs = rule.verbs.map((verb: string) => (verb === from ? to : verb));
  await admin.patch(path, { rules });
}

async function inForce({ admin, path, user, namespace }: BoundRole, call: string, allowed: boolean): Promise<void> {
  const { rules } = await admin.get(path);
  const [plural = '', verb] = call.split(' ');
  const { apiGroups, resourceNames } = rules.find(({ resources }: Json) => resources.includes(plural));
  const [resource, subresource] = plural.split('/');
  const what = { namespace, verb, group: apiGroups[0], resource, subresource, name: resourceNames?.[0] };
  const spec = { user, resourceAttributes: what };
  const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec };
  const answer = async (): Promise<boolean> =>
    (await admin.call('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', { body })).status.allowed;
  await waitFor(async () => (await answer()) === allowed, { message: `${path}: ${call} to be ${allowed}` });
}
