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
import type { Agent, IncomingMessage } from 'node:http';
import { closeIdle, openAgent, retire, type TlsMaterial } from '../http/agent.ts';
import { StaleConnectionError } from '../http/errors.ts';
import { type Answer, exchange, type HttpRequest, type Route, routeTo } from '../http/exchange.ts';
import { type Clock, systemClock, type Timer } from '../runtime/clock.ts';
import type { KubeApi, KubeRequest, KubeResponse, KubeStream } from './api.ts';
import { CallGate } from './call-gate.ts';
import { CallLimit } from './call-limit.ts';
import type { AuthHeaders, Connection } from './connection.ts';
import {
  apiErrorOf,
  type CallContext,
  ConnectionError,
  CredentialError,
  isGatewayError,
  isStorageStarting,
  isUnanswered,
  toConnectionError,
} from './errors.ts';

/** The version of Keyferry. The bundler defines it; without a bundle it is not declared. */
declare const KEYFERRY_VERSION: string | undefined;

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
  readonly maxWaitMs?: number;
  /**
   * Asked immediately before a write is sent, because the Lease may be lost while the write waits for a connection.
   * @returns why the write must not be sent (ConnectionError `EFENCED`); `undefined`: it may be sent
   */
  readonly fence?: (() => string | undefined) | undefined;
  /** Called for every request sent, repeats included. Must not throw. */
  readonly onRequest?: (observation: RequestObservation) => void;
  readonly clock?: Clock;
}

/** Answers whose Retry-After delays the later calls. */
const DELAYING: ReadonlySet<number> = new Set([429, 500, 503]);

/** Idle time before a connection is closed, ms. The server closes after 90 s, so no call meets a closing connection. */
const IDLE_MS = 55_000;

/** Largest answer read into memory, in bytes. Streams have no limit. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;

/** Time limit of a call that has none of its own, ms. */
const TIMEOUT_MS = 30_000;

/** Time between two checks of the connection's source, ms. */
const CHECK_MS = 2000;

export class HttpKubeApi implements KubeApi, AsyncDisposable {
  readonly cluster: string;
  readonly #options: HttpKubeApiOptions;
  readonly #clock: Clock;
  readonly #gate: CallGate;
  /** The limits of all open calls and streams. */
  readonly #limits = new Set<CallLimit>();
  /** For each call that must not stay at an old server: the function that ends it. */
  readonly #moveEnds = new Set<() => void>();
  /** The agent that opens connections with the present TLS material (CA, client certificate, key). */
  #agent: { readonly agent: Agent; readonly tls: TlsMaterial } | undefined;
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
    const { maxSockets: slots = 8, maxWaitMs = 30_000 } = options;
    this.#gate = new CallGate({ slots, maxWaitMs, clock: this.#clock });
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
    } catch (error) {
      if (request.moves === true && isReplaced(error)) return await this.request(request);
      throw error;
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
      return this.#open(stream, limit);
    } catch (error) {
      this.#end(limit);
      if (isReplaced(error)) return await this.stream(request);
      throw error;
    }
  }

  /** Makes the stream of a response that stays open. When its connection is closed, the call has ended. */
  #open(incoming: IncomingMessage, limit: CallLimit): KubeStream {
    let isClosed = false;
    const close = (): void => {
      isClosed = true;
      incoming.destroy();
    };
    const gate = this.#gate;
    /** Reads only as fast as the caller iterates: a slow reader slows the server, and does not fill the memory. */
    async function* read(): AsyncGenerator<Buffer, void, undefined> {
      try {
        for await (const chunk of incoming) {
          gate.recordAnswer();
          yield chunk as Buffer;
        }
        // After an abort destroyed `incoming`, the loop ends as if the server had ended the response.
        limit.signal.throwIfAborted();
      } catch (error) {
        if (isClosed) return;
        limit.signal.throwIfAborted();
        throw toConnectionError(limit.call, error);
      } finally {
        close();
      }
    }
    limit.stopClock();
    limit.stage = 'reading the stream';
    limit.onOver = () => incoming.destroy();
    this.#moveEnds.add(close);
    incoming.once('close', () => {
      this.#moveEnds.delete(close);
      this.#end(limit);
    });
    return { chunks: read(), close };
  }

  /** Ends all calls and streams and closes all connections. Safe to call twice. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#check?.cancel();
    this.#gate.close();
    for (const limit of this.#limits) limit.abort(this.#closedError(limit.call));
    this.#agent?.agent.destroy();
    if (this.#limits.size === 0) return;
    this.#drained ??= Promise.withResolvers<void>();
    await this.#drained.promise;
  }

  #begin(request: KubeRequest): CallLimit {
    const call: CallContext = { method: request.method, path: request.path };
    if (this.#closed) throw this.#closedError(call);
    const limit = new CallLimit(call, request.timeoutMs ?? TIMEOUT_MS, request.signal, this.#clock);
    this.#limits.add(limit);
    return limit;
  }

  #end(limit: CallLimit): void {
    limit.onOver = undefined;
    limit[Symbol.dispose]();
    this.#limits.delete(limit);
    if (this.#limits.size === 0) this.#drained?.resolve();
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
      const agent = this.#agentOf(connection, material);
      const answer = await this.#send(request, limit, streaming, routeOf(connection, auth), agent);
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
      if (DELAYING.has(error.status) && !isStorageStarting(error)) this.#gate.delay(error);
      if (error.status !== 401 || renewed || !(await this.#renewed(connection, limit, auth, material))) throw error;
      renewed = true;
    }
  }

  /** The agent for this TLS material. @throws CredentialError if the material cannot be used */
  #agentOf({ server, proxy, origin, credentials }: Connection, tls: TlsMaterial): Agent {
    if (this.#agent?.tls === tls) return this.#agent.agent;
    let agent: Agent;
    try {
      agent = openAgent(routeTo(server, [], proxy), { tls, idleMs: IDLE_MS });
    } catch (error) {
      // During a rotation the certificate may not match the key yet, so the next call reads both again.
      credentials.invalidate();
      const why = error instanceof Error ? error.message : String(error);
      throw new CredentialError(`${origin}: the CA, client certificate or client key cannot be used: ${why}`, {
        cause: error,
      });
    }
    this.#retire();
    this.#agent = { agent, tls };
    return agent;
  }

  /** Later calls open new connections. Running calls and streams end on the connections that they use. */
  #retire(): void {
    if (this.#agent !== undefined) retire(this.#agent.agent);
    this.#agent = undefined;
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
    if (this.#connection.source === undefined) return;
    const check = (): void => {
      void this.#checkNow().finally(() => {
        if (!this.#closed) this.#checkLater();
      });
    };
    this.#check = this.#clock.setTimeout(check, CHECK_MS, { unref: true });
  }

  async #checkNow(): Promise<void> {
    const connection = (await this.#connection.source?.check()) ?? this.#connection;
    if (connection === this.#connection || this.#closed) return;
    this.#connection = connection;
    this.#retire();
    // A Retry-After or outage of the old server says nothing about the new one.
    this.#gate.release();
    for (const end of this.#moveEnds) end();
  }

  /** Sends the request. If it is a GET and the kept connection was closed, sends it again on a new connection. */
  async #send(request: KubeRequest, limit: CallLimit, streaming: boolean, route: Route, agent: Agent): Promise<Answer> {
    const connection = this.#connection;
    const sent = toHttpRequest(request, this.#options.fence);
    const maxBytes = request.maxBytes ?? MAX_BODY_BYTES;
    const { method, path } = request;
    const replaced = (): void =>
      limit.abort(new ConnectionError('EREPLACED', `${method} ${path}: the connection was replaced`));
    const attempt = async (): Promise<Answer> => {
      const started = this.#clock.monotonic();
      let status: number | undefined;
      try {
        const { answer, abort } = exchange(route, sent, { agent, streaming, maxBytes });
        limit.stage = 'connecting or waiting for the answer';
        limit.onOver = abort;
        const answered = await answer;
        ({ status } = answered);
        return answered;
      } finally {
        this.#options.onRequest?.({ method, path, status, durationMs: this.#clock.monotonic() - started });
      }
    };
    if (streaming || request.moves === true) this.#moveEnds.add(replaced);
    try {
      return await attempt().catch(async (error: unknown) => {
        if (!(error instanceof StaleConnectionError) || method !== 'GET') throw error;
        closeIdle(agent);
        return await attempt();
      });
    } catch (error) {
      // The end of the call's own time limit shows no outage: the server may need longer for this call.
      limit.signal.throwIfAborted();
      const failure = toConnectionError(limit.call, error);
      const isStale = error instanceof StaleConnectionError;
      if (!isStale && isUnanswered(failure) && connection === this.#connection) this.#gate.recordNoAnswer();
      throw failure;
    } finally {
      this.#moveEnds.delete(replaced);
    }
  }

  #closedError({ method, path }: CallContext): ConnectionError {
    return new ConnectionError('ECLOSED', `${method} ${path}: the client was closed`);
  }
}

function toHttpRequest(request: KubeRequest, fence: HttpKubeApiOptions['fence']): HttpRequest {
  const { method, path, query, accept, compressed, body, contentType } = request;
  const headers = ['Accept', accept ?? 'application/json'];
  if (compressed === true) headers.push('Accept-Encoding', 'gzip');
  if (body !== undefined) headers.push('Content-Type', contentType ?? 'application/json');
  const checkFence = (): void => {
    const why = fence?.();
    if (why !== undefined) throw new ConnectionError('EFENCED', `${method} ${path}: not sent, ${why}`);
  };
  const beforeSending = fence === undefined || method === 'GET' ? undefined : checkFence;
  return { method, path: path + queryText(query), headers, body, beforeSending };
}

/** The server's address, and the headers that every request with these credentials has. */
function routeOf({ server, proxy }: Connection, auth: AuthHeaders): Route {
  const version = typeof KEYFERRY_VERSION === 'string' ? KEYFERRY_VERSION : 'dev';
  const headers = ['User-Agent', `keyferry/${version}`];
  for (const [name, value] of Object.entries(auth))
    for (const one of typeof value === 'string' ? [value] : value) headers.push(name, one);
  return routeTo(server, headers, proxy);
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

function isReplaced(error: unknown): boolean {
  return error instanceof ConnectionError && error.code === 'EREPLACED';
}
