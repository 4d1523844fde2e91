/** The program's own client for a test's control plane. */
import { HttpKubeApi } from '../../../src/kube/http.ts';
import { loadKubeconfig } from '../../../src/kube/auth/kubeconfig.ts';

/** Close it (`await using`). */
export async function kubeApi(kubeconfigPath: string): Promise<HttpKubeApi> {
  return new HttpKubeApi(await loadKubeconfig({ path: kubeconfigPath, env: {} }));
}
