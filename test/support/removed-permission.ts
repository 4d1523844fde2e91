/** Removes single permissions from a role, and gives them back. */
import type { Json, TestApi } from './api.ts';
import { waitFor } from './wait-for.ts';

/** A role that is bound to a user. */
export interface BoundRole {
  /** A client with an administrator's permissions. */
  readonly admin: TestApi;
  /** The path of the role. */
  readonly path: string;
  readonly user: string;
  /** A namespace in which the role applies. For a ClusterRole: any namespace. */
  readonly namespace: string;
}

/** Takes the place of a removed verb in the role. No request has such a verb. */
const placeholder = (verb: string): string => `no-${verb}`;

/**
 * Removes a permission. Resolves when the API server refuses such calls.
 * @param call - `<resource> <verb>`
 * @returns a function that gives the permission back, and resolves when the API server allows such calls
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
