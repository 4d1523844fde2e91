/**
 * Calls to one API server over HTTP/1.1.
 * A call waits for a slot (call-gate.ts), gets the credentials, is sent, and answers or throws. A call is sent a second
 * time in two cases only. In both, the server did not carry it out, or a second time does no harm:
 * - after a 401, if the credentials have changed when they are read again;
 * - a GET after the server closed a kept connection. The second try opens a new one, because the others may be closed.
 * After all other failures the caller decides: it looks up what became of a write. An answer with Retry-After (429, 500, 503) delays the later calls of
 * this client. While the server does not answer, calls are sent one at a time (call-gate.ts).
 *
 * If the client checks its kubeconfig and the file has changed, later and waiting calls use the new connection. Streams
 * end, so that their watchers open new ones, and running calls go on.
 * State: open → closed. Closing ends all calls and streams with `ConnectionError` ECLOSED.
 */
import type { Agent } from 'node:http';
import { closeIdle, type TlsMaterial } from '../http/agent.ts';
import { StaleConnectionError } from '../http/errors.ts';
import { type Answer, exchange, type HttpRequest, type Route } from '../http/exchange.ts';
import { type Clock, systemClock, type Timer } from '../runtime/clock.ts';
import type { KubeApi, KubeRequest, KubeResponse, KubeStream } from './api.ts';
import { CallGate } from './call-gate.ts';
import { CallLimit } from './call-limit.ts';
import { ConnectionPools } from './connection-pools.ts';
import type { AuthHeaders, Connection } from './connection.ts';
import {
  apiErrorOf,
  type CallContext,
  ConnectionError,
  isGatewayError,
  isStorageStarting,
  isUnanswered,
  toConnectionError,
} from './errors.ts';
import { openStream } from './http-stream.ts';

/** One request that was sent, for metrics. */
export interface RequestObservation {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** `undefined`: there was no answer. */
  readonly status: number | undefined;
  /** Ms until the answer was read, or for a stream until its headers arrived. */
  readonly durationMs: number;
}

export interface HttpKubeApiOptions {
  /** Most calls at the same time, and most connections that stay open for them. Default 8. */
  readonly maxSockets?: number;
  /** Longest time that one Retry-After delays the calls of this client, ms. Default 30,000. */
  readonly maxHoldMs?: number;
  /** Called for every request sent, repeats included. Must not throw. */
  readonly onRequest?: (observation: RequestObservation) => void;
  readonly clock?: Clock;
}

const REFUSALS_THAT_HOLD: ReadonlySet<number> = new Set([429, 500, 503]);

/** Error code for a stream that was still being opened when the connection was replaced. */
const REPLACED = 'EREPLACED';

/** Largest answer read into memory, in bytes. Streams have no limit. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;

/** Time limit of a call that has none of its own, ms. */
const TIMEOUT_MS = 30_000;

export class HttpKubeApi implements KubeApi, AsyncDisposable {
  readonly cluster: string;
  readonly #options: HttpKubeApiOptions;
  readonly #clock: Clock;
  readonly #gate: CallGate;
  /** The limits of all open calls and streams. */
  readonly #open = new Set<CallLimit>();
  /** For each stream that is open or being opened: the function that ends it. */
  readonly #streamEnds = new Set<() => void>();
  readonly #pools = new ConnectionPools();
  #connection: Connection;
  /** The next check of the connection's source. */
  #check: Timer | undefined;
  #closed = false;
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(connection: Connection, options: HttpKubeApiOptions = {}) {
    this.cluster = connection.cluster;
    this.#connection = connection;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    const { maxSockets: slots = 8, maxHoldMs = 30_000 } = options;
    this.#gate = new CallGate({ slots, maxHoldMs, clock: this.#clock });
    this.#checkLater();
  }

  async request(request: KubeRequest): Promise<KubeResponse> {
    const limit = this.#begin(request);
    try {
      const turn = this.#gate.enter(limit);
      if (turn !== undefined) await turn;
      try {
        return await this.#answer(request, limit, false);
      } finally {
        this.#gate.leave();
      }
    } finally {
      this.#end(limit);
    }
  }

  async stream(request: KubeRequest): Promise<KubeStream> {
    const limit = this.#begin(request);
    try {
      const turn = this.#gate.enterStream(limit);
      if (turn !== undefined) await turn;
      const { stream } = await this.#answer(request, limit, true);
      limit.signal.throwIfAborted();
      if (stream === undefined) throw new TypeError('a streamed answer came without its stream');
      const opened = openStream(stream, limit, {
        onChunk: () => this.#gate.recordAnswer(),
        onEnd: () => {
          this.#streamEnds.delete(close);
          this.#end(limit);
        },
      });
      const close = (): void => opened.close();
      this.#streamEnds.add(close);
      return opened;
    } catch (error) {
      this.#end(limit);
      throw error;
    }
  }

  /** Ends all calls and streams and closes all connections. Safe to call twice. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#check?.cancel();
    this.#gate.close();
    for (const limit of this.#open) limit.abort(this.#closedError(limit.call));
    this.#pools.destroy();
    if (this.#open.size === 0) return;
    this.#drained ??= Promise.withResolvers<void>();
    await this.#drained.promise;
  }

  #begin(request: KubeRequest): CallLimit {
    const call: CallContext = { cluster: this.cluster, method: request.method, path: request.path };
    if (this.#closed) throw this.#closedError(call);
    const limit = new CallLimit(call, request.timeoutMs ?? TIMEOUT_MS, request.signal, this.#clock);
    this.#open.add(limit);
    return limit;
  }

  #end(limit: CallLimit): void {
    limit.onOver = undefined;
    limit[Symbol.dispose]();
    this.#open.delete(limit);
    if (this.#open.size === 0) this.#drained?.resolve();
  }

  async #answer(request: KubeRequest, limit: CallLimit, streaming: boolean): Promise<Answer> {
    let renewed = false;
    for (;;) {
      const connection = this.#connection;
      const { credentials } = connection;
      const auth = await limit.wait('getting credentials', credentials.headers());
      const material = await limit.wait('reading certificates', credentials.tls());
      limit.signal.throwIfAborted();
      if (connection !== this.#connection) continue;
      const agent = this.#pools.of(connection, material);
      const answer = await this.#send(request, limit, streaming, this.#pools.routeOf(connection, auth), agent);
      if (answer === undefined) continue;
      if (answer.status >= 200 && answer.status < 300) {
        this.#gate.recordAnswer();
        return answer;
      }
      const error = apiErrorOf(
        limit.call,
        answer.status,
        answer.body,
        answer.headers['retry-after'],
        this.#clock.now(),
      );
      if (isGatewayError(error)) this.#gate.recordNoAnswer();
      else this.#gate.recordAnswer();
      if (REFUSALS_THAT_HOLD.has(error.status) && !isStorageStarting(error)) this.#gate.hold(error);
      if (error.status !== 401 || renewed || !(await this.#renewed(connection, limit, auth, material))) throw error;
      renewed = true;
    }
  }

  /** Reads the credentials again, and then the connection's source. @returns whether one of them has changed */
  async #renewed(connection: Connection, limit: CallLimit, auth: AuthHeaders, material: TlsMaterial): Promise<boolean> {
    if (connection !== this.#connection) return true;
    const { credentials } = connection;
    // Another call may have renewed the credentials in the meantime.
    const present = await limit.wait('getting new credentials', credentials.headers());
    if (present !== auth) return true;
    credentials.invalidate();
    const headers = await limit.wait('getting new credentials', credentials.headers());
    const tls = await limit.wait('reading new certificates', credentials.tls());
    if (headers !== auth || tls !== material) return true;
    await limit.wait('reading the kubeconfig again', this.#checkNow());
    return connection !== this.#connection;
  }

  #checkLater(): void {
    const { source } = this.#connection;
    if (source === undefined) return;
    const check = (): void => {
      void this.#checkNow().finally(() => {
        if (!this.#closed) this.#checkLater();
      });
    };
    this.#check = this.#clock.setTimeout(check, source.intervalMs, { unref: true });
  }

  async #checkNow(): Promise<void> {
    const connection = (await this.#connection.source?.check()) ?? this.#connection;
    if (connection === this.#connection || this.#closed) return;
    this.#connection = connection;
    this.#pools.retire();
    // A hold or outage of the old server says nothing about the new one.
    this.#gate.release();
    for (const end of this.#streamEnds) end();
  }

  /**
   * Sends the request. If it is a GET and the kept connection was closed, sends it again on a new connection.
   * @returns `undefined`: the connection was replaced while a stream was being opened
   */
  async #send(
    request: KubeRequest,
    limit: CallLimit,
    streaming: boolean,
    route: Route,
    agent: Agent,
  ): Promise<Answer | undefined> {
    const connection = this.#connection;
    const sent = toHttpRequest(request);
    const maxBytes = request.maxBytes ?? MAX_BODY_BYTES;
    const { method, path } = request;
    const attempt = async (): Promise<Answer> => {
      const started = this.#clock.monotonic();
      let status: number | undefined;
      let end: (() => void) | undefined;
      try {
        const { answer, abort } = exchange(route, sent, { agent, streaming, maxBytes });
        if (streaming) {
          end = () => abort(new ConnectionError(REPLACED, `${method} ${path}: the connection was replaced`));
          this.#streamEnds.add(end);
        }
        limit.stage = 'connecting or waiting for the answer';
        limit.onOver = abort;
        const answered = await answer;
        ({ status } = answered);
        return answered;
      } finally {
        if (end !== undefined) this.#streamEnds.delete(end);
        this.#options.onRequest?.({ method, path, status, durationMs: this.#clock.monotonic() - started });
      }
    };
    try {
      const answer = await attempt().catch(async (error: unknown) => {
        if (!(error instanceof StaleConnectionError) || method !== 'GET') throw error;
        closeIdle(agent);
        return await attempt();
      });
      if (!streaming || connection === this.#connection) return answer;
      answer.stream?.destroy();
      return undefined;
    } catch (error) {
      // The end of the call's own time limit shows no outage: the server may need longer for this call.
      limit.signal.throwIfAborted();
      const failure = toConnectionError(limit.call, error);
      if (failure.code === REPLACED) return undefined;
      const isStale = error instanceof StaleConnectionError;
      if (!isStale && isUnanswered(failure) && connection === this.#connection) this.#gate.recordNoAnswer();
      throw failure;
    }
  }

  #closedError({ method, path }: CallContext): ConnectionError {
    return new ConnectionError('ECLOSED', `${method} ${path}: the client was closed`);
  }
}

function toHttpRequest(request: KubeRequest): HttpRequest {
  const { method, path, query, accept, compressed, body, contentType, beforeSending } = request;
  const headers = ['Accept', accept ?? 'application/json'];
  if (compressed === true) headers.push('Accept-Encoding', 'gzip');
  if (body !== undefined) headers.push('Content-Type', contentType ?? 'application/json');
  return { method, path: path + queryText(query), headers, body, beforeSending };
}

function queryText(query: KubeRequest['query'] = {}): string {
  let text = '';
  for (const name in query) {
    const value = query[name];
    if (value === undefined) continue;
    text += `${text === '' ? '?' : '&'}${encodeURIComponent(name)}=${encodeURIComponent(value)}`;
  }
  return text;
}
