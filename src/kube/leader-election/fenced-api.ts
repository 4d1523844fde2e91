/**
 * An API that writes only while it may: while this replica leads, and only in namespaces that are served. A write can wait for its turn while that
 * changes, so it is checked again at the moment when it is sent.
 *
 * A process that was stopped (SIGSTOP, a paused machine) for longer than its Lease receives data before its overdue timers
 * fire. So the clock is checked again at the moment of each write.
 */
import type { KubeApi } from '../api.ts';
import { ConnectionError } from '../errors.ts';

/** @param refusal why a write to this path must not be sent now; it then throws ConnectionError `EFENCED`. `undefined`: it may be sent */
export function fenced(api: KubeApi, refusal: (path: string) => string | undefined): KubeApi {
  return {
    cluster: api.cluster,
    stream: (request) => api.stream(request),
    request: async (request) => {
      if (request.method === 'GET') return await api.request(request);
      const check = (): void => {
        const why = refusal(request.path);
        if (why !== undefined)
          throw new ConnectionError('EFENCED', `${request.method} ${request.path}: not sent, ${why}`);
        request.beforeSending?.();
      };
      check();
      // A call may wait for its slot, or for a new connection, longer than the Lease lasts.
      return await api.request({ ...request, beforeSending: check });
    },
  };
}
