/** The operator's own client of the API server, for tests of parts that take one. */
import { createKubeApi, type HttpKubeApi } from '../../src/kube/http.ts';
import { loadKubeconfig } from '../../src/kube/auth/kubeconfig.ts';
import type { ControlPlane } from '../servers/control-plane.ts';

/** As the administrator. To be disposed by whoever asked. */
export async function clientOf(plane: ControlPlane): Promise<HttpKubeApi> {
  return createKubeApi(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} }));
}
