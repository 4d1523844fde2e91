/** One more tenant's cluster, beside the two of `SyncSecretClusters`. It has no proxy and no garbage collector. */
import { readCrd } from '../../scripts/crd/read-crds.ts';
import { type ControlPlane, startControlPlane } from '../servers/control-plane.ts';
import type { TestApi } from './api.ts';
import { installCcm } from './sync-secret-install.ts';

export interface TenantCluster {
  readonly plane: ControlPlane;
  /** A client for users of the cluster. */
  readonly api: TestApi;
  /** The path of a kubeconfig for its CCM. */
  readonly kubeconfig: string;
}

/** Starts the cluster and prepares it for a CCM. The caller stops the plane. */
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
