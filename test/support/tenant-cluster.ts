/** Starts another tenant cluster, besides the two of `SyncSecretClusters`. It has no proxy and no garbage collector. */
import { type ControlPlane, startControlPlane } from '../servers/control-plane.ts';
import type { TestApi } from './api.ts';
import { installCcm } from './sync-secret-install.ts';

export interface TenantCluster {
  readonly plane: ControlPlane;
  /** A client for the test, as administrator. */
  readonly api: TestApi;
  /** Path of the kubeconfig for the CCM of this cluster. */
  readonly kubeconfig: string;
}

/** Starts the cluster and prepares it for a CCM. The caller must stop its control plane. */
export async function startTenantCluster(): Promise<TenantCluster> {
  const plane = await startControlPlane({ controllerManager: false, crds: true });
  try {
    return { plane, api: plane.api, kubeconfig: await plane.writeKubeconfig({ token: await installCcm(plane) }) };
  } catch (error) {
    await plane.stop();
    throw error;
  }
}
