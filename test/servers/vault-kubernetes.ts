/** Sets up Vault's Kubernetes auth method, for the control plane of a test. */
import { requestToken } from '../support/service-account.ts';
import type { ControlPlane } from './control-plane.ts';
import type { VaultServer } from './vault.ts';

/** Vault sends each token to the API server for review. It does so as this ServiceAccount. */
const REVIEWER = { name: 'vault', namespace: 'default' };

/**
 * Enables the method at `auth/<mount>`. The API server of `plane` reviews the tokens of clients.
 * @throws TestApiError, VaultServerError
 */
export async function enableKubernetesAuth(vault: VaultServer, mount: string, plane: ControlPlane): Promise<void> {
  const { api, url, caPem } = plane;
  await api.apply([
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: REVIEWER },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: REVIEWER.name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:auth-delegator' },
      subjects: [{ kind: 'ServiceAccount', ...REVIEWER }],
    },
  ]);
  await vault.request('POST', `sys/auth/${mount}`, { type: 'kubernetes' });
  await vault.request('POST', `auth/${mount}/config`, {
    kubernetes_host: url,
    kubernetes_ca_cert: caPem,
    token_reviewer_jwt: await requestToken(api, REVIEWER.namespace, REVIEWER.name),
    disable_local_ca_jwt: true,
  });
}
