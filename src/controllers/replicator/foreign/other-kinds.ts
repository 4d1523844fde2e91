/** Objects of kinds that kubernetes-replicator copies and Keyferry does not. */
import { listerOf } from '../../common/snapshot/inventory.ts';
import type { KubeApi } from '../../../kube/api.ts';
import type { Finding } from '../../common/migration.ts';

const PREFIX = 'replicator.v1.mittwald.de/';
const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const COLLECTIONS = [
  { kind: 'Role', groupPath: RBAC, plural: 'roles' },
  { kind: 'RoleBinding', groupPath: RBAC, plural: 'rolebindings' },
  { kind: 'ServiceAccount', groupPath: '/api/v1', plural: 'serviceaccounts' },
  { kind: 'Service', groupPath: '/api/v1', plural: 'services' },
] as const;
/** The annotations of users. Those of copies are not counted: a copy is named by its source. */
const REQUESTS = ['replicate-to', 'replicate-to-matching', 'replicate-from'].map((name) => `${PREFIX}${name}`);

/** @returns with notes on what could not be listed @throws the errors of `api.request`, except 403 */
export async function otherKinds(
  api: KubeApi,
  signal: AbortSignal | undefined,
): Promise<{ readonly findings: readonly Finding[]; readonly notes: readonly string[] }> {
  const findings: Finding[] = [];
  const notes: string[] = [];
  const lister = listerOf(api);
  for (const collection of COLLECTIONS) {
    const reach = await lister(
      collection,
      undefined,
      ({ metadata: { namespace = '', name, annotations = {} } }) => {
        const request = REQUESTS.find((one) => one in annotations);
        if (request === undefined) return;
        const text = `${request}: Keyferry copies Secrets and ConfigMaps only`;
        findings.push({ verdict: 'unsupported', object: { kind: collection.kind, namespace, name }, text });
      },
      { metadataOnly: true, signal },
    );
    if (reach.extent === 'refused') notes.push(`${collection.kind}s are not included: ${reach.message}`);
  }
  return { findings, notes };
}
