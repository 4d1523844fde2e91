/**
 * One HTTP request and its whole answer over a kept-alive connection, with nothing of Vault in it.
 */
import http, { type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import https from 'node:https';

import type { SecretBytes } from '../runtime/secret-bytes.ts';
import type { VaultAddresses } from './addresses.ts';
import { Slots } from './slots.ts';
import type { VaultTarget } from './target.ts';

export interface Exchange {
  readonly method: string;
  /** Encoded, with query. */
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body?: Buffer | undefined;
  readonly signal: AbortSignal;
  /** The call may be sent a second time if the connection turned out to be closed before anything came back. */
  readonly repeatable: boolean;
}

export interface TransportOptions {
  /** At a time. */
  readonly connections: number;
  readonly large: Slots;
  /** What the server's name may resolve to. */
  readonly addresses: VaultAddresses;
  /** URL of an HTTP proxy. */
  readonly proxy?: string | undefined;
  readonly client?: ClientCertificate | undefined;
}

/** What we show a server that asks who we are. PEM. */
export interface ClientCertificate {
  readonly certificate: string;
  readonly key: SecretBytes;
}

export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
}

/** The answer is larger than anything we ask for, or comes too slowly for its size. */
export class AnswerTooLargeError extends Error {
  override readonly name = 'AnswerTooLargeError';
  readonly status: number;

  constructor(reason: string, status: number) {
    super(reason);
    this.status = status;
  }
}

/** A Kubernetes Secret holds at most 1 MiB. As base64 that is 1.4 MiB; the rest is for JSON's escapes and the metadata. */
export const MAX_ANSWER_BYTES = 2 * 1024 * 1024;
/** Answers above this are large: only some of them are in memory at a time. */
const LARGE_BYTES = 64 * 1024;
/** How long the rest of a large answer may take, ms: a server that sends it drop by drop must not keep others waiting. */
const LARGE_LIMIT_MS = 5_000;
/** Large answers at a time, of all servers: with the text and its values each takes up to 10 MiB for a moment. */
const LARGE_AT_A_TIME = 4;

/** What all connections of a process share to bound the memory for answers. */
export function largeAnswerSlots(): Slots {
  return new Slots(LARGE_AT_A_TIME);
}

/** Below the idle limits usual for load balancers (60 s), so that it is us who closes. */
const IDLE_MS = 30_000;

export class Transport {
  readonly #url: URL;
  readonly #agent: http.Agent | https.Agent;
  readonly #large: Slots;

  constructor(target: VaultTarget, options: TransportOptions) {
    const { connections, large, addresses, proxy, client } = options;
    this.#url = target.url;
    this.#large = large;
    // Behind a proxy it is the proxy's name that is resolved here.
    const way =
      proxy === undefined
        ? { lookup: addresses.lookupFor(target.url) }
        : { proxyEnv: { HTTP_PROXY: proxy, HTTPS_PROXY: proxy } };
    const shared = { keepAlive: true, maxSockets: connections, timeout: IDLE_MS, scheduling: 'lifo', ...way } as const;
    this.#agent =
      target.url.protocol === 'http:'
        ? new http.Agent(shared)
        : new https.Agent({
            ...shared,
            rejectUnauthorized: !target.insecureSkipVerify,
            ...(client === undefined ? {} : { cert: client.certificate, key: client.key.utf8() }),
            ...(target.caBundle === undefined ? {} : { ca: target.caBundle }),
            ...(target.tlsServerName === undefined ? {} : { servername: target.tlsServerName }),
          });
  }

  /** @throws the signal's reason, node's error of the connection, or AnswerTooLargeError */
  async send(exchange: Exchange): Promise<Answer> {
    try {
      return await this.#once(exchange);
    } catch (error) {
      if (error instanceof StaleConnectionError && exchange.repeatable) return await this.#once(exchange);
      throw error instanceof StaleConnectionError ? error.cause : error;
    }
  }

  /** Closes the connections, those in use too. */
  destroy(): void {
    this.#agent.destroy();
  }

  #once(exchange: Exchange): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const { signal } = exchange;
    if (signal.aborted) return Promise.reject(signal.reason);
    const module = this.#url.protocol === 'http:' ? http : https;
    const request = module.request({
      protocol: this.#url.protocol,
      hostname: this.#url.hostname.replace(/^\[|\]$/g, ''),
      port: this.#url.port,
      path: this.#url.pathname.replace(/\/$/, '') + exchange.path,
      method: exchange.method,
      headers: exchange.headers,
      agent: this.#agent,
    });
    const onAbort = (): void => {
      request.destroy();
      reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    let answered = false;
    request.on('error', (cause: NodeJS.ErrnoException) => {
      const stale = request.reusedSocket && !answered && (cause.code === 'ECONNRESET' || cause.code === 'EPIPE');
      reject(stale ? new StaleConnectionError('the kept connection was closed', { cause }) : cause);
    });
    request.on('response', (response) => {
      answered = true;
      this.#readAll(response, signal).then(resolve, (error: unknown) => {
        request.destroy();
        reject(error);
      });
    });
    request.end(exchange.body);
    return promise.finally(() => {
      signal.removeEventListener('abort', onAbort);
    });
  }

  async #readAll(response: IncomingMessage, signal: AbortSignal): Promise<Answer> {
    const status = response.statusCode ?? 0;
    const tooLarge = (): AnswerTooLargeError =>
      new AnswerTooLargeError(`the answer is larger than ${MAX_ANSWER_BYTES} bytes, the most that is read`, status);
    if (Number(response.headers['content-length'] ?? 0) > MAX_ANSWER_BYTES) throw tooLarge();
    const chunks: Buffer[] = [];
    let length = 0;
    let large: Disposable | undefined;
    let timer: NodeJS.Timeout | undefined;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        length += chunk.byteLength;
        if (length > MAX_ANSWER_BYTES) throw tooLarge();
        chunks.push(chunk);
        if (length <= LARGE_BYTES || large !== undefined) continue;
        // The server is not read from while we wait.
        large = await this.#large.take(signal);
        timer = setTimeout(() => {
          const reason = `the answer is large, and the rest of it took longer than ${LARGE_LIMIT_MS} ms`;
          response.destroy(new AnswerTooLargeError(reason, status));
        }, LARGE_LIMIT_MS);
      }
      return { status, headers: response.headers, body: Buffer.concat(chunks, length) };
    } finally {
      clearTimeout(timer);
      // Its text is parsed before anything else is read.
      large?.[Symbol.dispose]();
    }
  }
}

/** A connection from the pool that the server had closed meanwhile. */
class StaleConnectionError extends Error {}
