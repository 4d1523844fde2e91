/** Opens Keyferry's own client of the Kubernetes API, for the control plane of a test. */
import { HttpKubeApi } from '../../../src/kube/http.ts';
import { loadKubeconfig } from '../../../src/kube/auth/kubeconfig.ts';

/** Opens a client with this kubeconfig. Close the client with `await using`. */
export async function kubeApi(kubeconfigPath: string): Promise<HttpKubeApi> {
  return new HttpKubeApi(await loadKubeconfig({ path: kubeconfigPath, env: {} }));
}
