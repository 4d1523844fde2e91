/**
 * Refuses writes that this process must not send, because it does not lead. This can change while a write waits, so each
 * write is checked again immediately before it is sent. The check reads the clock and does not rely on timers: if the
 * process was paused for longer than its Lease (SIGSTOP, a paused machine), an answer can arrive before the overdue
 * timers fire.
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
      // A call may wait for a free or a new connection for longer than the Lease lasts.
      return await api.request({ ...request, beforeSending: check });
    },
  };
}
