/** A tenant's cluster beside the two of `SyncSecretClusters`, prepared for a CCM. No proxy is before it, and nothing collects garbage. */
import { readCrd } from '../../scripts/crd/read-crds.ts';
import { type ControlPlane, startControlPlane } from '../servers/control-plane.ts';
import type { TestApi } from './api.ts';
import { installCcm } from './sync-secret-install.ts';

export interface TenantCluster {
  readonly plane: ControlPlane;
  /** Users of the cluster. */
  readonly api: TestApi;
  /** Path of the kubeconfig of its CCM. */
  readonly kubeconfig: string;
}

/** The caller stops the plane. */
export async function startTenantCluster(): Promise<TenantCluster> {
  const plane = await startControlPlane({ controllerManager: false });
  try {
    await plane.api.apply(readCrd('syncsecrets'));
    return { plane, api: plane.api, kubeconfig: await plane.writeKubeconfig({ token: await installCcm(plane) }) };
  } catch (error) {
    await plane.stop();
    throw error;
  }
}
