/** Requests tokens of ServiceAccounts, for programs under test that run as such a user. */
import type { UserOptions } from '../servers/control-plane-files.ts';
import type { TestApi } from './api.ts';

const DEFAULT_SECONDS = 3600;

/** Keyferry's ServiceAccount in `deploy/` as a user. A control plane with this user has a token for it from the start. */
export const KEYFERRY_ACCOUNT = {
  name: 'system:serviceaccount:keyferry:keyferry',
  groups: ['system:serviceaccounts', 'system:serviceaccounts:keyferry', 'system:authenticated'],
} satisfies UserOptions;

/** Requests a token, as the kubelet does for a Pod. The API server accepts durations of 600 s and more. */
export async function requestToken(
  api: TestApi,
  namespace: string,
  name: string,
  seconds = DEFAULT_SECONDS,
): Promise<string> {
  const { status } = await api.call('POST', `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`, {
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: seconds },
    },
  });
  return status.token;
}

/** The user name that a ServiceAccount has in audit logs and bindings. */
export function serviceAccountUser(namespace: string, name: string): string {
  return `system:serviceaccount:${namespace}:${name}`;
}
