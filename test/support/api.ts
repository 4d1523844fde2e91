/**
 * A small Kubernetes client for tests. It uses plain node:https and imports nothing from `src/`. So a mistake in
 * Keyferry's client cannot be in this client, too, and stay hidden.
 */
import { parseAllDocuments } from 'yaml';

import { HttpClient } from './http.ts';
import { ResourceMap } from './resource-map.ts';
import type { Reference } from './resource-map.ts';
import { Watcher } from './watcher.ts';
import type { WatchHandler } from './watcher.ts';
import { waitFor } from './wait-for.ts';

/** A parsed JSON object of any form. Tests read its fields without types. */
// oxlint-disable-next-line typescript/no-explicit-any -- a test reads arbitrary fields of arbitrary kinds
export type Json = any;

export interface TestApiOptions {
  /** The address of the API server: `https://127.0.0.1:6443`. */
  readonly url: string;
  readonly caPem: string;
  readonly token?: string;
  readonly clientCertPem?: string;
  readonly clientKeyPem?: string;
  /** The largest number of connections at the same time. Default: 16. */
  readonly maxSockets?: number;
}

export interface CallOptions {
  readonly query?: Readonly<Record<string, string | number | boolean>>;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly accept?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** The API server answered with a status outside of 200–299. */
export class TestApiError extends Error {
  override readonly name = 'TestApiError';
  readonly status: number;
  /** The field `reason` of the server's answer: `NotFound`, `AlreadyExists`, `Conflict`, `Forbidden`, `Invalid`, … */
  readonly reason: string;

  constructor(method: string, path: string, status: number, body: Json) {
    super(`${method} ${path}: ${status} ${body?.message ?? body}`);
    this.status = status;
    this.reason = body?.reason ?? '';
  }
}

export type PatchType = 'merge' | 'json' | 'strategic';

const PATCH_TYPES: Readonly<Record<PatchType, string>> = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
};

export class TestApi {
  readonly #http: HttpClient;
  readonly #auth: Readonly<Record<string, string>>;
  readonly #resources: ResourceMap;

  constructor(options: TestApiOptions) {
    this.#http = new HttpClient(options.url, options);
    this.#auth = options.token === undefined ? {} : { authorization: `Bearer ${options.token}` };
    this.#resources = new ResourceMap((path) => this.get(path));
  }

  /** Closes idle connections. A watch has its own `stop`. */
  close(): void {
    this.#http.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Sends a request and returns the answer, whatever its status. `body` is parsed if it is JSON, else it is a text. */
  async raw(
    method: string,
    path: string,
    options: CallOptions = {},
  ): Promise<{ status: number; headers: Json; body: Json }> {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(options.query ?? {})) query.set(key, String(value));
    const answer = await this.#http.send(query.size > 0 ? `${path}?${query.toString()}` : path, {
      method,
      headers: {
        ...this.#auth,
        accept: options.accept ?? 'application/json',
        ...(options.body === undefined ? {} : { 'content-type': options.contentType ?? 'application/json' }),
      },
      ...(options.body === undefined
        ? {}
        : { body: typeof options.body === 'string' ? options.body : JSON.stringify(options.body) }),
      ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    const isJson = String(answer.headers['content-type']).startsWith('application/json');
    return { status: answer.status, headers: answer.headers, body: isJson ? JSON.parse(answer.text) : answer.text };
  }

  /** Sends a request. @returns the parsed body @throws TestApiError for a status outside of 200–299 */
  async call(method: string, path: string, options: CallOptions = {}): Promise<Json> {
    const { status, body } = await this.raw(method, path, options);
    if (status < 200 || status > 299) throw new TestApiError(method, path, status, body);
    return body;
  }

  get(path: string, options: CallOptions = {}): Promise<Json> {
    return this.call('GET', path, options);
  }

  /** Reads an object. @returns `undefined` for status 404 @throws TestApiError for other statuses outside of 200–299 */
  async find(path: string): Promise<Json> {
    const { status, body } = await this.raw('GET', path);
    if (status === 404) return undefined;
    if (status !== 200) throw new TestApiError('GET', path, status, body);
    return body;
  }

  /** Reads all objects of a collection, in pages of 500. */
  async list(path: string, query: Readonly<Record<string, string>> = {}): Promise<Json[]> {
    const items: Json[] = [];
    let token = '';
    do {
      const page = await this.get(path, { query: { ...query, limit: 500, ...(token && { continue: token }) } });
      items.push(...page.items);
      token = page.metadata.continue ?? '';
    } while (token !== '');
    return items;
  }

  /** Creates an object. Its apiVersion, kind and namespace decide on the path. */
  async create(object: Json): Promise<Json> {
    const collection = await this.#resources.collection(object);
    return this.call('POST', collection, { body: object });
  }

  async createNamespaces(names: readonly string[]): Promise<void> {
    await this.createMany(names.map((name) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })));
  }

  /**
   * Creates many objects, `parallelism` of them at the same time.
   * @throws the first error, after the calls that were already sent have ended
   */
  async createMany(objects: Iterable<Json>, parallelism = 16): Promise<void> {
    const source = objects[Symbol.iterator]();
    let failed = false;
    const worker = async (): Promise<void> => {
      for (let next = source.next(); next.done !== true && !failed; next = source.next()) {
        try {
          await this.create(next.value);
        } catch (error) {
          failed = true;
          throw error;
        }
      }
    };
    const results = await Promise.allSettled(Array.from({ length: parallelism }, worker));
    const failure = results.find((result) => result.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
  }

  replace(path: string, object: Json): Promise<Json> {
    return this.call('PUT', path, { body: object });
  }

  patch(path: string, patch: Json, type: PatchType = 'merge'): Promise<Json> {
    return this.call('PATCH', path, { body: patch, contentType: PATCH_TYPES[type] });
  }

  /** Deletes an object. @returns false if the object did not exist */
  async delete(path: string, query: Readonly<Record<string, string>> = {}): Promise<boolean> {
    const { status, body } = await this.raw('DELETE', path, { query });
    if (status === 404) return false;
    if (status < 200 || status > 299) throw new TestApiError('DELETE', path, status, body);
    return true;
  }

  /**
   * Applies manifests (text or objects) one after the other, like `kubectl apply --server-side`. After a
   * CustomResourceDefinition, waits until it is established. An object of a namespaced kind gets the namespace
   * `default` if it has none.
   */
  async apply(manifests: Json, fieldManager = 'test'): Promise<Json[]> {
    const applied: Json[] = [];
    for (const object of toObjects(manifests)) {
      const path = await this.pathOf(object);
      const result = await this.call('PATCH', path, {
        body: object,
        contentType: 'application/apply-patch+yaml',
        query: { fieldManager, force: true },
      });
      if (object.kind === 'CustomResourceDefinition') await this.#established(path);
      applied.push(result);
    }
    return applied;
  }

  /** The path of an object. The server's discovery says which path belongs to apiVersion and kind. */
  async pathOf(reference: Reference): Promise<string> {
    return `${await this.#resources.collection(reference)}/${encodeURIComponent(reference.metadata?.name ?? '')}`;
  }

  /**
   * Watches a collection, from `resourceVersion` or from now on, until the watch is stopped. If the watch breaks, it
   * connects again. Resolves when the watch is open. Each event has its time of arrival (`performance.now()`, ms).
   */
  watch(path: string, onEvent: WatchHandler, query: Readonly<Record<string, string>> = {}): Promise<Watcher> {
    return Watcher.open(this.#http, this.#auth, path, query, onEvent);
  }

  async #established(path: string): Promise<void> {
    await waitFor(
      async () => {
        const crd = await this.get(path);
        return crd.status?.conditions?.some((c: Json) => c.type === 'Established' && c.status === 'True');
      },
      { message: `${path} to be established` },
    );
    this.#resources.clear();
  }
}

function toObjects(manifests: Json): Json[] {
  if (typeof manifests !== 'string') return Array.isArray(manifests) ? manifests : [manifests];
  return parseAllDocuments(manifests)
    .map((document) => {
      if (document.errors[0] !== undefined) throw document.errors[0];
      return document.toJS();
    })
    .filter((object) => object !== null && object !== undefined);
}
