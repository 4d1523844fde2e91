/** Vault's Kubernetes auth method, for a control plane of the test. */
import { requestToken } from '../support/service-account.ts';
import type { ControlPlane } from './control-plane.ts';
import type { VaultServer } from './vault.ts';

/** The ServiceAccount with which Vault asks the API server to review tokens. */
const REVIEWER = { name: 'vault', namespace: 'default' };

/**
 * Enables the method at `auth/<mount>`. Vault lets the API server review the tokens.
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
