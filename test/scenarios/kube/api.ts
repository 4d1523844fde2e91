/** The program's own client for a test's control plane. */
import { type HttpKubeApi, createKubeApi } from '../../../src/kube/http.ts';
import { loadKubeconfig } from '../../../src/kube/auth/kubeconfig.ts';

/** Close it (`await using`). */
export async function kubeApi(kubeconfigPath: string): Promise<HttpKubeApi> {
  return createKubeApi(await loadKubeconfig({ path: kubeconfigPath, env: {} }));
}
