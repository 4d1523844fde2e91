/** One short conversation with a cluster. */
import type { Connection } from '../kube/connection.ts';
import { createKubeApi, type HttpKubeApi } from '../kube/http.ts';
import { loadKubeconfig } from '../kube/kubeconfig.ts';
import type { ClusterOptions } from './actions.ts';

/** @throws KubeconfigError if there is no cluster to talk to, and what `work` throws */
export async function withCluster<T>(
  { kubeconfig, context }: ClusterOptions,
  env: NodeJS.ProcessEnv,
  work: (api: HttpKubeApi, connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await loadKubeconfig({ path: kubeconfig, context, env });
  await using api = createKubeApi(connection);
  return await work(api, connection);
}
