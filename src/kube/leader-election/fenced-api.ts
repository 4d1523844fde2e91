/**
 * An API that writes only while this replica leads.
 *
 * A process that was stopped (SIGSTOP, a paused machine) for longer than its Lease receives data before its overdue timers
 * fire. So the clock is checked again at the moment of each write.
 */
import { type KubeApi, type KubeRequest, type KubeResponse, type KubeStream } from '../api.ts';
import { ConnectionError } from '../errors.ts';

export class FencedApi implements KubeApi {
  readonly cluster: string;
  readonly #api: KubeApi;
  readonly #mayWrite: () => boolean;

  constructor(api: KubeApi, mayWrite: () => boolean) {
    this.cluster = api.cluster;
    this.#api = api;
    this.#mayWrite = mayWrite;
  }

  /** @throws ConnectionError `EFENCED` for a write while this replica does not lead; nothing was sent then */
  async request(request: KubeRequest): Promise<KubeResponse> {
    if (request.method === 'GET') return await this.#api.request(request);
    const check = (): void => {
      if (this.#mayWrite()) return;
      const text = `${request.method} ${request.path}: not sent, another replica may be leading`;
      throw new ConnectionError('EFENCED', text);
    };
    check();
    // A call may wait for its slot, or for a new connection, longer than the Lease lasts.
    return await this.#api.request({ ...request, beforeSending: check });
  }

  async stream(request: KubeRequest): Promise<KubeStream> {
    return await this.#api.stream(request);
  }
}
