/**
 * Notices that the server of a client belongs to another cluster than before: a kubeconfig was replaced, or a name
 * leads to another address. Versions of two clusters must not be compared, so the identity of the cluster is read for
 * each stream. By convention, it is the uid of the namespace kube-system.
 */
import { sleep } from '../runtime/abort.ts';
import { Backoff, RECONNECT } from '../runtime/queue/backoff.ts';
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

/** Reads the identity until it is known. @param onFailed called with the error of each try that failed */
export async function awaitClusterUid(
  api: KubeApi,
  signal: AbortSignal,
  onFailed: (error: unknown) => void,
): Promise<string> {
  const backoff = new Backoff(RECONNECT);
  for (;;) {
    try {
      return await clusterUid(api, signal);
    } catch (error) {
      signal.throwIfAborted();
      onFailed(error);
      await sleep(backoff.next(), signal);
    }
  }
}

/**
 * The identity is read when a stream is open, and before it is used: a stream may be opened at a new server by itself.
 * Where the identity cannot be read, no change is noticed.
 * @param onOther called if the cluster is another one than before. It may abort the request
 */
export function identified(api: KubeApi, onOther: () => void): KubeApi {
  let known: string | undefined;
  const identify = async (signal: AbortSignal | undefined): Promise<void> => {
    const before = known;
    try {
      known = await clusterUid(api, signal);
    } catch (error) {
      if (!isForbidden(error) && !isNotFound(error)) throw error;
    }
    if (before !== undefined && before !== known) onOther();
    signal?.throwIfAborted();
  };
  return {
    cluster: api.cluster,
    request: (request) => api.request(request),
    stream: async (request) => {
      const stream = await api.stream(request);
      try {
        await identify(request.signal);
        return stream;
      } catch (error) {
        stream.close();
        throw error;
      }
    },
  };
}
