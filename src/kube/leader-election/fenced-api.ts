/**
 * Refuses writes that this process may not send, because it does not lead or does not serve the namespace. This can
 * change while a write waits for its turn, so each write is checked again right before it is sent. The check reads the
 * clock: after a pause of the process that is longer than its Lease (SIGSTOP, a paused machine), data arrive before
 * overdue timers fire.
 */
import type { KubeApi } from '../api.ts';
import { ConnectionError } from '../errors.ts';

/** @param refusal why a write to this path must fail now (ConnectionError `EFENCED`); `undefined`: it may be sent */
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
