/** HTTP calls with plain node:http(s), for the clients in tests. Imports nothing from `src/`. */
import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import type { IncomingMessage, IncomingHttpHeaders } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';

export interface HttpOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Time limit for the head of the response, and for each pause between two chunks, ms. Default: 30,000. 0: none. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface HttpClientOptions {
  /** The CA that signed the server's certificate, as PEM. */
  readonly caPem?: string;
  readonly clientCertPem?: string;
  readonly clientKeyPem?: string;
  /** The largest number of connections at the same time. Default: 16. */
  readonly maxSockets?: number;
}

export class HttpClient {
  readonly #base: URL;
  readonly #agent: HttpAgent | HttpsAgent;

  constructor(baseUrl: string, options: HttpClientOptions = {}) {
    this.#base = new URL(baseUrl);
    const pool = { keepAlive: true, maxSockets: options.maxSockets ?? 16 };
    this.#agent =
      this.#base.protocol === 'https:'
        ? new HttpsAgent({ ...pool, ca: options.caPem, cert: options.clientCertPem, key: options.clientKeyPem })
        : new HttpAgent(pool);
  }

  /** Closes idle connections. */
  close(): void {
    this.#agent.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /**
   * Sends a request. Resolves with the head of the response, before its body is read. `path` may contain a query. A GET
   * is sent again if the server closed its kept connection at the same moment: a busy server does this to idle ones.
   */
  open(path: string, options: HttpOptions = {}): Promise<IncomingMessage> {
    const { method = 'GET', headers = {}, body, timeoutMs = 30_000, signal } = options;
    const send = this.#base.protocol === 'https:' ? httpsRequest : httpRequest;
    return new Promise((resolve, reject) => {
      const request = send(
        new URL(path, this.#base),
        {
          method,
          agent: this.#agent,
          headers: body === undefined ? headers : { 'content-length': String(Buffer.byteLength(body)), ...headers },
          timeout: timeoutMs,
          ...(signal === undefined ? {} : { signal }),
        },
        resolve,
      );
      request.once('error', (error: NodeJS.ErrnoException) => {
        const wasClosed = method === 'GET' && request.reusedSocket && error.code === 'ECONNRESET';
        if (wasClosed && signal?.aborted !== true) resolve(this.open(path, options));
        else reject(error);
      });
      request.once('timeout', () => {
        request.destroy(new Error(`${method} ${path}: no answer within ${timeoutMs} ms`));
      });
      request.end(body);
    });
  }

  async send(path: string, options: HttpOptions = {}): Promise<HttpAnswer> {
    const response = await this.open(path, options);
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    return {
      status: response.statusCode ?? 0,
      headers: response.headers,
      text: Buffer.concat(chunks).toString('utf8'),
    };
  }
}
