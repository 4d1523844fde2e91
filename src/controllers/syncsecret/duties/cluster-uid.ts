/** The identity of a cluster: by convention, the uid of its namespace kube-system. */
import { METADATA_ONLY, type KubeApi, type KubeObject } from '../../../kube/api.ts';
import { ApiError } from '../../../kube/errors.ts';
import { parseJson } from '../../../kube/json.ts';
import { sleep } from '../../../runtime/abort.ts';
import { Backoff, RECONNECT } from '../../../runtime/queue/backoff.ts';
import { UNKNOWN_CLUSTER } from '../rules/marks.ts';

const PATH = '/api/v1/namespaces/kube-system';

/**
 * Reads the uid. Where that is forbidden, it is tried again: an administrator may permit it at any time.
 * @param onRead gets the uid; before that `UNKNOWN_CLUSTER` and the error once, if it is forbidden
 */
export async function readClusterUid(
  api: KubeApi,
  signal: AbortSignal,
  onRead: (uid: string, error?: ApiError) => void,
): Promise<void> {
  const backoff = new Backoff(RECONNECT);
  let isKnownRefused = false;
  for (;;) {
    try {
      const { body } = await api.request({ method: 'GET', path: PATH, accept: METADATA_ONLY, signal });
      onRead((parseJson(body, `the answer to GET ${PATH}`) as KubeObject).metadata.uid);
      return;
    } catch (error) {
      signal.throwIfAborted();
      if (!isKnownRefused && error instanceof ApiError && (error.status === 403 || error.status === 404)) {
        isKnownRefused = true;
        onRead(UNKNOWN_CLUSTER, error);
      }
      await sleep(backoff.next(), signal);
    }
  }
}
