/** Which Pods, workloads, ServiceAccounts and Ingresses name a Secret or ConfigMap. They are in its namespace. */
import type { Explanation } from '../../../scripts/reports/schemas.ts';
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import { type Collection, listerOf, MissingRight } from '../snapshot/inventory.ts';
import type { Subject } from './subject.ts';

export type Users = Pick<Explanation, 'usedBy' | 'usersUnread'>;

const APPS = '/apis/apps/v1';
const BATCH = '/apis/batch/v1';
const COLLECTIONS: readonly Collection[] = [
  { kind: 'Deployment', groupPath: APPS, plural: 'deployments' },
  { kind: 'StatefulSet', groupPath: APPS, plural: 'statefulsets' },
  { kind: 'DaemonSet', groupPath: APPS, plural: 'daemonsets' },
  { kind: 'CronJob', groupPath: BATCH, plural: 'cronjobs' },
  { kind: 'Job', groupPath: BATCH, plural: 'jobs' },
  { kind: 'Pod', groupPath: '/api/v1', plural: 'pods' },
  { kind: 'ServiceAccount', groupPath: '/api/v1', plural: 'serviceaccounts' },
  { kind: 'Ingress', groupPath: '/apis/networking.k8s.io/v1', plural: 'ingresses' },
];

/** The fields whose objects have the name of a Secret or ConfigMap. Some Secrets are named by `secretName`, too. */
const REFERENCES: Readonly<Record<string, RegExp>> = {
  Secret: /^(?:secrets?|imagePullSecrets|secretKeyRef|\w*[sS]ecretRef)$/,
  ConfigMap: /^configMap(?:Key)?(?:Ref)?$/,
};

/** The fields that say what the object is for. */
const PURPOSES = /^(?:volumes|env|envFrom|imagePullSecrets|secrets|tls)$/;

type Named = Pick<Users['usedBy'][number], 'kind' | 'name'>;

interface User extends KubeObject {
  readonly status?: { readonly phase?: string; readonly conditions?: readonly { type: string; status: string }[] };
}

/** @throws the errors of `api.request`, except for a missing permission */
export async function usersOf(
  api: KubeApi,
  { collection: { kind: wanted }, namespace, name }: Subject,
  signal: AbortSignal | undefined,
): Promise<Users> {
  if (REFERENCES[wanted] === undefined) return { usedBy: [], usersUnread: [] };
  const found: [title: string, purposes: readonly string[]][] = [];
  const ownerOf = new Map<string, string>();
  const unread = new Set<string>();
  const take = (kind: string, item: User): void => {
    const { metadata, status, ...body } = item;
    const title = `${kind} ${metadata.name}`;
    const owner = controllerOf(item);
    if (owner !== undefined) ownerOf.set(title, owner);
    const purposes = isOver(status) ? [] : purposesIn(body, { kind: wanted, name });
    if (purposes.length > 0) found.push([title, purposes]);
  };
  await Promise.all(
    COLLECTIONS.map(async (one) => {
      try {
        await listerOf(api)(one, [namespace], (item) => take(one.kind, item), { signal });
      } catch (error) {
        if (!(error instanceof MissingRight)) throw error;
        unread.add(one.kind);
      }
    }),
  );
  // A Pod stands for the workload that made it, and a Job for its CronJob.
  const topOf = (title: string): string => (ownerOf.has(title) ? topOf(ownerOf.get(title) ?? '') : title);
  const users = Map.groupBy(found, ([title]) => topOf(title));
  const kinds = COLLECTIONS.map(({ kind }) => kind);
  return {
    usedBy: Array.from(users, ([title, of]) => {
      const [kind = '', name = ''] = title.split(' ');
      return { kind, name, as: [...new Set(of.flatMap(([, purposes]) => purposes))].toSorted() };
    }).toSorted((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind) || (a.name < b.name ? -1 : 1)),
    usersUnread: kinds.filter((kind) => unread.has(kind)),
  };
}

/** The object that made this one. A ReplicaSet of a Deployment has the name of that, and the hash that its Pods have. */
function controllerOf({ metadata: { ownerReferences = [], labels = {} } }: User): string | undefined {
  const owner = ownerReferences.find(({ controller }) => controller === true);
  const hash = `-${labels['pod-template-hash'] ?? ''}`;
  if (owner?.kind !== 'ReplicaSet' || hash === '-' || !owner.name.endsWith(hash))
    return owner && `${owner.kind} ${owner.name}`;
  return `Deployment ${owner.name.slice(0, -hash.length)}`;
}

/** Whether a Pod or Job has ended, and so uses nothing any more. */
function isOver({ phase = '', conditions = [] }: User['status'] = {}): boolean {
  if (phase !== '') return phase === 'Succeeded' || phase === 'Failed';
  return conditions.some(({ type, status }) => ['Complete', 'Failed'].includes(type) && status === 'True');
}

/** What the object is for in a value. @param field the field that the value is in @param purpose of that field */
function purposesIn(value: unknown, object: Named, field = '', purpose = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => purposesIn(item, object, field, purpose));
  if (typeof value !== 'object' || value === null) return [];
  const { kind, name } = object;
  const fields = value as Readonly<Record<string, unknown>>;
  const isNamed = fields['name'] === name && REFERENCES[kind]?.test(field) === true;
  if (isNamed || (kind === 'Secret' && fields['secretName'] === name))
    return [fields['optional'] === true ? `${purpose}, optional` : purpose];
  return Object.entries(fields).flatMap(([key, one]) =>
    purposesIn(one, object, key, PURPOSES.test(key) ? key : purpose),
  );
}
