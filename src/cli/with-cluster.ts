/** One short conversation with a cluster. */
import type { Connection } from '../kube/connection.ts';
import { ConnectionError, isUnauthorized } from '../kube/errors.ts';
import { createKubeApi, type HttpKubeApi } from '../kube/http.ts';
import { loadKubeconfig } from '../kube/auth/kubeconfig.ts';
import type { ClusterOptions } from './actions.ts';

/**
 * @throws KubeconfigError if there is no cluster to talk to, and what `work` throws; where the cluster could not be reached, or does
 * not know us, with the server and where it is named
 */
export async function withCluster<T>(
  { kubeconfig, context }: ClusterOptions,
  env: NodeJS.ProcessEnv,
  work: (api: HttpKubeApi, connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await loadKubeconfig({ path: kubeconfig, context, env });
  await using api = createKubeApi(connection);
  try {
    return await work(api, connection);
  } catch (error) {
    if (!(error instanceof ConnectionError) && !isUnauthorized(error)) throw error;
    const { server, origin } = connection;
    throw new Error(`cannot use the cluster at ${server.origin} (${origin}): ${error.message}`, { cause: error });
  }
}
