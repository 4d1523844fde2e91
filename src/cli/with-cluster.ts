/** A connection to a cluster for one short command. */
import type { Connection } from '../kube/connection.ts';
import { ConnectionError, isUnauthorized } from '../kube/errors.ts';
import { createKubeApi, type HttpKubeApi } from '../kube/http.ts';
import { loadKubeconfig } from '../kube/auth/kubeconfig.ts';
import type { ClusterOptions } from '../commands/actions.ts';

/**
 * @throws KubeconfigError if no cluster is configured, and the errors of `work`; a connection error or 401 is wrapped with the
 * address of the server and its origin
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
