/**
 * An API that writes only while this replica leads.
 *
 * A process that was stopped (SIGSTOP, a paused machine) for longer than its Lease receives data before its overdue timers
 * fire. So the clock is checked again at the moment of each write.
 */
import type { KubeApi } from '../api.ts';
import { ConnectionError } from '../errors.ts';

/** @returns the API; a write while `mayWrite` is false is not sent, and throws ConnectionError `EFENCED` */
export function fenced(api: KubeApi, mayWrite: () => boolean): KubeApi {
  return {
    cluster: api.cluster,
    stream: (request) => api.stream(request),
    request: async (request) => {
      if (request.method === 'GET') return await api.request(request);
      const check = (): void => {
        if (mayWrite()) return;
        const text = `${request.method} ${request.path}: not sent, another replica may be leading`;
        throw new ConnectionError('EFENCED', text);
      };
      check();
      // A call may wait for its slot, or for a new connection, longer than the Lease lasts.
      return await api.request({ ...request, beforeSending: check });
    },
  };
}
