/**
 * One request that passes the fault proxy, from its head to the end of the answer.
 *
 * States: held (delayed) → forwarding → answering → ended. In each of the first three, the exchange can be stalled (its
 * connections stay open, but no more bytes pass) or cut (its connections break, and it has ended).
 */
import type { Agent, ClientRequest, IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';

import type { Fault, ProxyRequest } from './fault-rules.ts';

export interface RequestRecord {
  readonly method: string;
  /** The path with its query. */
  readonly url: string;
  readonly isWatch: boolean;
  /** The value of the header `X-Vault-Namespace`. */
  readonly vaultNamespace?: string;
  /** When the head of the request arrived, as `performance.now()`, ms. */
  readonly at: number;
  /** The status that the client got; 0 if it got no answer. */
  status: number;
  /** Bytes of the answer's body that the client got, before it decodes them. */
  bytesIn: number;
  /** Bytes of the request's body. */
  bytesOut: number;
  /** When the exchange ended, as `performance.now()`; `undefined` while it runs. */
  endedAt?: number;
  /** The fault that a rule applied; absent: none. */
  fault?: Fault['kind'];
}

/** Sums for all requests of a proxy: bytes of HTTP bodies, before the client decodes them. */
export interface ProxyCounters {
  requests: number;
  bytesIn: number;
  bytesOut: number;
}

export interface Upstream {
  readonly url: URL;
  readonly agent: Agent;
}

/** Headers that concern a single connection. The proxy does not pass them on, because its other side has its own. */
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'proxy-connection', 'te']);

export class Exchange {
  readonly request: ProxyRequest;
  readonly record: RequestRecord;
  readonly #incoming: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #upstream: Upstream;
  readonly #counters: ProxyCounters;
  readonly #onEnd: () => void;
  #outgoing: ClientRequest | undefined;
  #answer: IncomingMessage | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stalled = false;
  #ended = false;
  /** How many complete lines still pass before the cut; `undefined`: the whole answer passes. */
  #linesLeft: number | undefined;

  constructor(
    request: ProxyRequest,
    incoming: IncomingMessage,
    response: ServerResponse,
    upstream: Upstream,
    counters: ProxyCounters,
    onEnd: () => void,
  ) {
    this.request = request;
    const vaultNamespace = incoming.headers['x-vault-namespace'];
    this.record = {
      method: request.method,
      url: request.url,
      isWatch: request.isWatch,
      ...(typeof vaultNamespace === 'string' && { vaultNamespace }),
      at: performance.now(),
      status: 0,
      bytesIn: 0,
      bytesOut: 0,
    };
    this.#incoming = incoming;
    this.#response = response;
    this.#upstream = upstream;
    this.#counters = counters;
    this.#onEnd = onEnd;
    // The exchange has ended, whether client, server or proxy caused it.
    response.once('close', () => this.#end());
    response.on('error', () => this.#end());
    incoming.on('error', () => this.#end());
  }

  start(fault: Fault | undefined): void {
    if (fault !== undefined) this.record.fault = fault.kind;
    switch (fault?.kind) {
      case undefined:
      case 'lose-answer':
        return this.#forward();
      case 'cut':
        return this.cut();
      case 'stall':
        return this.stall();
      case 'delay':
        this.#timer = setTimeout(() => this.#forward(), fault.ms);
        return undefined;
      case 'hold':
        void this.#hold(fault.until);
        return undefined;
      case 'respond':
        void this.#respond(fault);
        return undefined;
      case 'truncate':
        this.truncate(fault.lines ?? 0);
        return this.#forward();
    }
  }

  /** Breaks the connections to the client and to the server. */
  cut(): void {
    this.#incoming.socket.destroy();
    this.#end();
  }

  /** From now on, no byte passes in either direction. The connections stay open. */
  stall(): void {
    this.#stalled = true;
    clearTimeout(this.#timer);
    this.#incoming.pause();
    this.#answer?.pause();
  }

  /** This many complete lines of the answer pass, and half of the next one. Then the connections break. */
  truncate(lines: number): void {
    this.#linesLeft = lines;
  }

  async #hold(until: Promise<void>): Promise<void> {
    await until;
    if (!this.#ended) this.#forward();
  }

  #forward(): void {
    const { url, agent } = this.#upstream;
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const outgoing = send(new URL(this.request.url, url), {
      method: this.request.method,
      headers: { ...endToEnd(this.#incoming.headers), host: url.host },
      agent,
    });
    this.#outgoing = outgoing;
    // The server broke the connection or does not run. The client's connection breaks, too.
    outgoing.on('error', () => this.cut());
    outgoing.on('response', (answer) => this.#receive(answer));
    this.#incoming.on('data', (chunk: Buffer) => {
      this.record.bytesOut += chunk.length;
      this.#counters.bytesOut += chunk.length;
      if (!outgoing.write(chunk)) this.#incoming.pause();
    });
    outgoing.on('drain', () => {
      if (!this.#stalled) this.#incoming.resume();
    });
    this.#incoming.on('end', () => outgoing.end());
  }

  #receive(answer: IncomingMessage): void {
    if (this.record.fault === 'lose-answer') return this.cut();
    this.#answer = answer;
    answer.on('error', () => this.cut());
    answer.on('aborted', () => this.cut());
    if (this.#stalled) return undefined;
    this.record.status = answer.statusCode ?? 0;
    this.#response.writeHead(this.record.status, endToEnd(answer.headers));
    // The client must get the head of a watch immediately, even if there is no event yet.
    this.#response.flushHeaders();
    answer.on('data', (chunk: Buffer) => this.#pass(chunk));
    // After a cut inside the answer, or a stall, the normal end of the answer must not reach the client.
    answer.on('end', () => {
      if (!this.#stalled) this.#response.end();
    });
    this.#response.on('drain', () => {
      if (!this.#stalled) answer.resume();
    });
    return undefined;
  }

  #pass(chunk: Buffer): void {
    if (this.#stalled || this.#ended) return;
    const cutAt = this.#cutAt(chunk);
    const part = cutAt === undefined ? chunk : chunk.subarray(0, cutAt);
    this.record.bytesIn += part.length;
    this.#counters.bytesIn += part.length;
    const flowing = this.#response.write(part, () => {
      if (cutAt !== undefined) this.cut();
    });
    if (!flowing) this.#answer?.pause();
    if (cutAt !== undefined) this.#stalled = true;
  }

  /**
   * Where in this chunk the answer is cut: in the middle of the line after the last line that passes.
   */
  #cutAt(chunk: Buffer): number | undefined {
    if (this.#linesLeft === undefined) return undefined;
    let start = 0;
    while (this.#linesLeft > 0) {
      const newline = chunk.indexOf(0x0a, start);
      if (newline < 0) return undefined;
      start = newline + 1;
      this.#linesLeft -= 1;
    }
    if (start >= chunk.length) return undefined;
    const newline = chunk.indexOf(0x0a, start);
    const end = newline < 0 ? chunk.length : newline;
    return start + Math.max(1, Math.floor((end - start) / 2));
  }

  async #respond(fault: Extract<Fault, { kind: 'respond' }>): Promise<void> {
    const { status, headers, body = '', until } = fault;
    if (until !== undefined) await until;
    if (this.#ended) return;
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const type = typeof body === 'string' ? 'text/plain' : 'application/json';
    this.record.status = status;
    this.#incoming.on('data', (chunk: Buffer) => {
      this.record.bytesOut += chunk.length;
      this.#counters.bytesOut += chunk.length;
    });
    this.#incoming.on('end', () => {
      this.record.bytesIn += Buffer.byteLength(text);
      this.#counters.bytesIn += Buffer.byteLength(text);
      this.#response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(text), ...headers });
      this.#response.end(text);
    });
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.record.endedAt = performance.now();
    clearTimeout(this.#timer);
    // After a complete answer, the connection to the server can be used again. Otherwise the proxy aborts
    // its request to the server, too.
    if (this.#answer?.complete !== true) this.#outgoing?.destroy();
    this.#onEnd();
  }
}

function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name)));
}
