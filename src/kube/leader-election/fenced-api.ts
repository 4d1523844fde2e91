/**
 * An API that writes only while a fence is open: for one of several replicas.
 *
 * A process that was asleep (SIGSTOP, a paused machine) longer than its lease sees what arrived meanwhile before the timers that
 * were due fire. So whether the lease is still ours is asked again, by the clock, at the very moment of each write.
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

  /** @throws ConnectionError `EFENCED` for a write while the fence is closed; nothing was sent then */
  async request(request: KubeRequest): Promise<KubeResponse> {
    if (request.method === 'GET') return await this.#api.request(request);
    const check = (): void => {
      if (this.#mayWrite()) return;
      const text = `${request.method} ${request.path}: not sent, another replica may be working`;
      throw new ConnectionError('EFENCED', text);
    };
    check();
    // A call may wait for its turn longer than the lease lasts.
    return await this.#api.request({ ...request, beforeSending: check });
  }

  async stream(request: KubeRequest): Promise<KubeStream> {
    return await this.#api.stream(request);
  }
}
