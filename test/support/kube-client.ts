/** Opens Keyferry's own client of the API server, for tests of the code that uses it. */
import { HttpKubeApi } from '../../src/kube/http.ts';
import { loadKubeconfig } from '../../src/kube/auth/kubeconfig.ts';
import type { ControlPlane } from '../servers/control-plane.ts';

/** Opens a client with an administrator's permissions. The caller must dispose it. */
export async function clientOf(plane: ControlPlane): Promise<HttpKubeApi> {
  return new HttpKubeApi(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} }));
}
