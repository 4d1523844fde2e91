/** Calls on one Lease. Every write carries the resourceVersion that was read, so that one of two writers fails. */
import type { KubeApi, KubeRequest } from '../api.ts';
import { isNotFound } from '../errors.ts';
import { parseJson } from '../json.ts';
import { type Lease, newLease, releasedLease, renewedLease, takenLease } from './lease-record.ts';

export interface LeaseClientOptions {
  readonly api: KubeApi;
  readonly namespace: string;
  readonly name: string;
  readonly identity: string;
  /** Duration in the Lease, ms. */
  readonly durationMs: number;
  /** Limit of each call, ms. */
  readonly timeoutMs: number;
}

export class LeaseClient {
  readonly #options: LeaseClientOptions;
  readonly #collection: string;
  readonly #path: string;

  constructor(options: LeaseClientOptions) {
    this.#options = options;
    this.#collection = `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(options.namespace)}/leases`;
    this.#path = `${this.#collection}/${encodeURIComponent(options.name)}`;
  }

  /** `undefined` if there is none. @throws ApiError, ConnectionError */
  async read(signal: AbortSignal): Promise<Lease | undefined> {
    try {
      return await this.#call({ method: 'GET', path: this.#path, signal });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** @throws ApiError (AlreadyExists: another replica was first), ConnectionError */
  create(now: number, signal: AbortSignal): Promise<Lease> {
    const { namespace, name, identity, durationMs } = this.#options;
    const body = JSON.stringify(newLease(namespace, name, identity, durationMs, now));
    return this.#call({ method: 'POST', path: this.#collection, body, signal });
  }

  /** @throws ApiError (Conflict: it changed since it was read), ConnectionError */
  renew(lease: Lease, now: number, signal: AbortSignal): Promise<Lease> {
    return this.#put(renewedLease(lease, this.#options.identity, this.#options.durationMs, now), signal);
  }

  /** @throws ApiError (Conflict: it changed since it was read), ConnectionError */
  take(lease: Lease, now: number, signal: AbortSignal): Promise<Lease> {
    return this.#put(takenLease(lease, this.#options.identity, this.#options.durationMs, now), signal);
  }

  /** @throws ApiError (Conflict: it changed since it was read), ConnectionError */
  release(lease: Lease, now: number, signal: AbortSignal): Promise<Lease> {
    return this.#put(releasedLease(lease, now), signal);
  }

  #put(lease: unknown, signal: AbortSignal): Promise<Lease> {
    return this.#call({ method: 'PUT', path: this.#path, body: JSON.stringify(lease), signal });
  }

  async #call(request: KubeRequest): Promise<Lease> {
    const { body } = await this.#options.api.request({ ...request, timeoutMs: this.#options.timeoutMs });
    return parseJson(body, `the answer to ${request.method} ${request.path}`) as Lease;
  }
}
