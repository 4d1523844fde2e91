/** HTTP calls with plain node:http(s), for the clients of tests. Imports nothing of the program. */
import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import type { IncomingMessage, IncomingHttpHeaders } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';

export interface HttpOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Time limit until the head of the response, and then between two chunks, ms. Default: 30,000. 0: no limit. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface HttpClientOptions {
  /** The authority that signed the server's certificate, as PEM. */
  readonly caPem?: string;
  readonly clientCertPem?: string;
  readonly clientKeyPem?: string;
  /** The most connections at the same time. Default: 16. */
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

  /** Sends a request, and resolves with the head of the response. The body is not read yet. `path` may have a query. */
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
      request.once('error', reject);
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
