/**
 * One HTTP request and its whole answer over a kept-alive connection, with nothing of Vault in it.
 */
import http, { type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import https from 'node:https';

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

export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
}

/** The answer was longer than anything we ask for. */
export class AnswerTooLongError extends Error {
  override readonly name = 'AnswerTooLongError';
}

/** An entry has at most 1 MiB (Vault's own limit), which base64 and escapes make longer. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
/** Below the idle limits usual for load balancers (60 s), so that it is us who closes. */
const IDLE_MS = 30_000;

export class Transport {
  readonly #url: URL;
  readonly #agent: http.Agent | https.Agent;

  constructor(target: VaultTarget, connections: number) {
    this.#url = target.url;
    const shared = { keepAlive: true, maxSockets: connections, timeout: IDLE_MS, scheduling: 'lifo' } as const;
    this.#agent =
      target.url.protocol === 'http:'
        ? new http.Agent(shared)
        : new https.Agent({
            ...shared,
            rejectUnauthorized: !target.insecureSkipVerify,
            ...(target.caBundle === undefined ? {} : { ca: target.caBundle }),
            ...(target.tlsServerName === undefined ? {} : { servername: target.tlsServerName }),
          });
  }

  /** @throws the signal's reason, node's error of the connection, or AnswerTooLongError */
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
      readAll(response).then(resolve, (error: unknown) => {
        request.destroy();
        reject(error);
      });
    });
    request.end(exchange.body);
    return promise.finally(() => {
      signal.removeEventListener('abort', onAbort);
    });
  }
}

/** A connection from the pool that the server had closed meanwhile. */
class StaleConnectionError extends Error {}

async function readAll(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.byteLength;
    if (length > MAX_ANSWER_BYTES) throw new AnswerTooLongError(`the answer is longer than ${MAX_ANSWER_BYTES} bytes`);
    chunks.push(chunk);
  }
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks, length) };
}
