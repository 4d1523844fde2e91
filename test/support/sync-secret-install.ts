/** Prepares a cluster for a program of SyncSecret: applies the manifests of `deploy/`, except the CRD. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';

import type { ControlPlane } from '../servers/control-plane.ts';
import { requestToken } from './service-account.ts';
import { waitFor } from './wait-for.ts';

const DEPLOY = path.join(import.meta.dirname, '../../deploy');
/** The namespace in which the CCM (in the tenant cluster) and the manager (in the management cluster) run. */
export const HOME = 'keyferry';
export const CCM_ACCOUNT = 'keyferry-syncsecret-ccm';
export const MANAGER_ACCOUNT = 'keyferry-syncsecret-manager';
/** The namespace in deploy/rbac-syncsecret-tenant.yaml. It is replaced by the tenant's namespace. */
const EXAMPLE_NAMESPACE = 'tenant-primary';

type Cluster = Pick<ControlPlane, 'api' | 'client'>;

/** Prepares a tenant cluster for the CCM and the synchronizer. @returns the CCM's token for this cluster */
export async function installCcm(plane: ControlPlane): Promise<string> {
  await plane.api.apply(await manifest('rbac-syncsecret-ccm.yaml'));
  await plane.api.apply(await manifest('rbac-syncsecret-synchronizer.yaml'));
  return await tokenOf(plane, HOME, CCM_ACCOUNT);
}

/** Prepares the management cluster for the manager. @returns the manager's token */
export async function installManager(plane: ControlPlane): Promise<string> {
  await plane.api.apply(await manifest('rbac-syncsecret-manager.yaml'));
  return await tokenOf(plane, HOME, MANAGER_ACCOUNT);
}

/** Prepares the management cluster for the CCM of a tenant. @returns the CCM's token for the management cluster */
export async function installTenant(plane: Cluster, namespace: string): Promise<string> {
  const text = await manifest('rbac-syncsecret-tenant.yaml');
  await plane.api.apply(text.replaceAll(EXAMPLE_NAMESPACE, namespace));
  return await tokenOf(plane, namespace, CCM_ACCOUNT, `/namespaces/${namespace}`);
}

async function manifest(file: string): Promise<string> {
  return await readFile(path.join(DEPLOY, file), 'utf8');
}

/** Requests a token. Waits until the permissions of its ServiceAccount are in force. */
async function tokenOf(plane: Cluster, namespace: string, account: string, scope = ''): Promise<string> {
  const token = await requestToken(plane.api, namespace, account);
  using client = plane.client({ token });
  const list = `/apis/kubelb.k8c.io/v1alpha1${scope}/syncsecrets?limit=1`;
  await waitFor(async () => (await client.raw('GET', list)).status === 200, {
    message: `the permissions of ${account} to be in force`,
  });
  return token;
}
