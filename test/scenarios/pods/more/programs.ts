/** Objects and images to run Vault and External Secrets Operator as Pods. */
import path from 'node:path';

import { ensureServer } from '../../../servers/ensure.ts';
import { writeProgramImage } from '../../../servers/real-cluster/program-image.ts';
import type { Json } from '../../../support/api.ts';

export const VAULT_PORT = 8200;

const imageOf = (name: string): string => `localhost/keyferry-test/${name}:1`;

/** Writes the archive of an image that has one of the servers. @param folder - for the archive @returns its path */
export async function writeServerImage(name: 'vault' | 'external-secrets', folder: string): Promise<string> {
  return writeProgramImage(imageOf(name), await ensureServer(name), path.join(folder, name));
}

/** A Pod with Vault in development mode, whose data end with the Pod, and its Service `vault`. */
export function vaultObjects(namespace: string, rootToken: string): Json[] {
  const args = ['server', '-dev', '-dev-no-store-token', `-dev-root-token-id=${rootToken}`];
  const listener = `-dev-listen-address=0.0.0.0:${VAULT_PORT}`;
  const container = {
    args: [...args, listener],
    // This Vault contains a certificate with a negative serial number. Newer Go refuses such a certificate without this
    // setting.
    env: [{ name: 'GODEBUG', value: 'x509negativeserial=1' }],
    readinessProbe: { httpGet: { path: '/v1/sys/health', port: VAULT_PORT }, periodSeconds: 1 },
  };
  return [
    ...programObjects('vault', namespace, 'system:auth-delegator', container),
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'vault', namespace },
      spec: { selector: { app: 'vault' }, ports: [{ port: VAULT_PORT }] },
    },
  ];
}

/** External Secrets Operator with all permissions, without its CRDs. */
export function externalSecretsObjects(namespace: string): Json[] {
  return programObjects('external-secrets', namespace, 'cluster-admin', {});
}

function programObjects(name: string, namespace: string, role: string, container: object): Json[] {
  const labels = { app: name };
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: `test-${name}` },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, namespace },
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            serviceAccountName: name,
            containers: [{ name, image: imageOf(name), imagePullPolicy: 'Never', ...container }],
          },
        },
      },
    },
  ];
}
