/**
 * Notices that the server of a client belongs to another cluster than before: a kubeconfig was replaced, or a name
 * leads to another address. Versions of two clusters must not be compared, so the identity of the cluster is read before
 * each stream is opened. By convention, it is the uid of the namespace kube-system. Where that cannot be read, the
 * address of the server stands for it.
 */
import { type KubeApi, type KubeObject, METADATA_ONLY } from './api.ts';
import { isForbidden, isNotFound } from './errors.ts';
import { parseJson } from './json.ts';

const KUBE_SYSTEM = '/api/v1/namespaces/kube-system';
/** A server that is being replaced may never answer, ms. */
const TIMEOUT_MS = 10_000;

/** @throws ApiError 403 or 404: the identity cannot be read */
export async function clusterUid(api: KubeApi, signal?: AbortSignal): Promise<string> {
  const request = { path: KUBE_SYSTEM, accept: METADATA_ONLY, timeoutMs: TIMEOUT_MS, signal };
  const { body } = await api.request({ method: 'GET', ...request });
  return (parseJson(body, `the answer to GET ${KUBE_SYSTEM}`) as KubeObject).metadata.uid;
}

/** @param onOther called before a stream is opened at another cluster than before. It may abort the request */
export function identified(api: KubeApi, onOther: () => void): KubeApi {
  let known: string | undefined;
  const identify = async (server: string | undefined, signal: AbortSignal | undefined): Promise<void> => {
    const found = await clusterUid(api, signal).catch((error: unknown) => {
      if (!isForbidden(error) && !isNotFound(error)) throw error;
      return server;
    });
    const before = known;
    known = found;
    if (before !== undefined && before !== found) onOther();
    signal?.throwIfAborted();
  };
  return {
    cluster: api.cluster,
    get server() {
      return api.server;
    },
    request: (request) => api.request(request),
    stream: async (request) => {
      for (;;) {
        const { server } = api;
        await identify(server, request.signal);
        const stream = await api.stream(request);
        if (api.server === server) return stream;
        stream.close();
      }
    },
  };
}
