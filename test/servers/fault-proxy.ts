/**
 * A reverse proxy on loopback between a client and a real server (Kubernetes or Vault). It behaves like a bad network
 * or a busy server. Rules apply faults to new requests. `cutAll`, `stallAll` and `truncateAll` apply faults to running
 * requests.
 *
 * The proxy has its own TLS certificate. So it can pass on tokens, but no client certificates.
 *
 * States: open ⇄ refusing (after `refuse`: nothing listens on the port); open ⇄ partitioned (after `partition`: the
 * proxy accepts connections, but sends no byte). After `stop`, the proxy is closed.
 */
import { createServer as createHttpServer, Agent as HttpAgent } from 'node:http';
import type { IncomingMessage, Server as HttpServer, ServerResponse } from 'node:http';
import { createServer as createHttpsServer, Agent as HttpsAgent } from 'node:https';
import { createServer } from 'node:net';
import type { Server, Socket } from 'node:net';

import { CertificateAuthority } from './certificates.ts';
import { Exchange } from './exchange.ts';
import type { ProxyCounters, RequestRecord, Upstream } from './exchange.ts';
import { describeRequest, matches, RuleSet } from './fault-rules.ts';
import type { ActiveRule, FaultRule, Matcher } from './fault-rules.ts';
import { freePort } from './ports.ts';

export interface FaultProxyOptions {
  /** The URL of the real server. */
  readonly upstream: string;
  /** The CA of the real server's certificate, as PEM. */
  readonly upstreamCaPem?: string;
  /** Whether clients connect to the proxy with TLS. Default: yes if the real server uses TLS. */
  readonly tls?: boolean;
}

export class FaultProxy {
  /** The URL of the proxy. Clients use it in place of the server's URL. */
  readonly url: string;
  /** The CA of the proxy's certificate, as PEM; '' without TLS. */
  readonly caPem: string;
  /** Sums since the start or the last `reset`: bytes of HTTP bodies, before the client decodes them. */
  readonly counters: ProxyCounters = { requests: 0, bytesIn: 0, bytesOut: 0 };
  readonly #requests: RequestRecord[] = [];
  readonly #rules = new RuleSet();
  readonly #live = new Set<Exchange>();
  readonly #sockets = new Set<Socket>();
  readonly #port: number;
  readonly #upstream: Upstream;
  readonly #http: HttpServer;
  #listener: Server | undefined;
  #partitioned = false;

  /** Called only by `startFaultProxy`. */
  constructor(port: number, tls: { certPem: string; keyPem: string; caPem: string } | undefined, upstream: Upstream) {
    this.#port = port;
    this.#upstream = upstream;
    this.url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
    this.caPem = tls?.caPem ?? '';
    const handler = (incoming: IncomingMessage, response: ServerResponse): void => this.#take(incoming, response);
    this.#http =
      tls === undefined
        ? createHttpServer(handler)
        : createHttpsServer({ cert: tls.certPem, key: tls.keyPem, ALPNProtocols: ['http/1.1'] }, handler);
    // Without an idle timeout, because a watch may be silent for any time.
    this.#http.requestTimeout = 0;
    this.#http.timeout = 0;
  }

  /** All requests, in the order of their arrival. Records of running requests still change. */
  get requests(): readonly RequestRecord[] {
    return this.#requests;
  }

  /** The requests that are still running. */
  live(match?: Matcher): readonly RequestRecord[] {
    return this.#matching(match).map(({ record }) => record);
  }

  /** Applies a fault to new requests that match. If several rules match a request, the oldest rule is applied. */
  rule(rule: FaultRule): ActiveRule {
    return this.#rules.add(rule);
  }

  clearRules(): void {
    this.#rules.clear();
  }

  /** Sets the counters to zero, and removes the records of requests that have ended. */
  reset(): void {
    Object.assign(this.counters, { requests: 0, bytesIn: 0, bytesOut: 0 });
    this.#requests.splice(0, this.#requests.length, ...this.#matching().map(({ record }) => record));
  }

  /** Breaks the connections of running requests. @returns the number of these requests */
  cutAll(match?: Matcher): number {
    const exchanges = this.#matching(match);
    for (const exchange of exchanges) exchange.cut();
    return exchanges.length;
  }

  /**
   * Stalls running requests: no more bytes pass, and their connections stay open until client or server closes them.
   * @returns the number of these requests
   */
  stallAll(match?: Matcher): number {
    const exchanges = this.#matching(match);
    for (const exchange of exchanges) exchange.stall();
    return exchanges.length;
  }

  /**
   * Running requests still pass `lines` complete lines and half of the next one. Then their connections break.
   * @returns the number of these requests
   */
  truncateAll(match?: Matcher, lines = 0): number {
    const exchanges = this.#matching(match);
    for (const exchange of exchanges) exchange.truncate(lines);
    return exchanges.length;
  }

  /** Breaks all connections. Until `accept`, new connections are refused (ECONNREFUSED). */
  async refuse(): Promise<void> {
    const listener = this.#listener;
    this.#listener = undefined;
    for (const socket of this.#sockets) socket.destroy();
    if (listener !== undefined) await new Promise((resolve) => listener.close(resolve));
  }

  /** Listens again after `refuse`, on the same port. */
  async accept(): Promise<void> {
    if (this.#listener !== undefined) return;
    const listener = createServer((socket) => this.#connect(socket));
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject);
      listener.listen(this.#port, '127.0.0.1', resolve);
    });
    this.#listener = listener;
  }

  /** Until `heal`, old and new connections stay open, but no byte passes. */
  partition(): void {
    this.#partitioned = true;
    this.stallAll();
  }

  /** Ends a partition. Breaks all connections that are open, because bytes on them were lost. */
  heal(): void {
    this.#partitioned = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    await this.refuse();
    this.cutAll();
    this.#upstream.agent.destroy();
    this.#http.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #connect(socket: Socket): void {
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.once('close', () => this.#sockets.delete(socket));
    // The client has reset the connection. The exchanges on it end by themselves.
    socket.on('error', () => socket.destroy());
    if (!this.#partitioned) this.#http.emit('connection', socket);
  }

  #take(incoming: IncomingMessage, response: ServerResponse): void {
    const request = describeRequest(incoming.method ?? '', incoming.url ?? '/');
    const exchange: Exchange = new Exchange(request, incoming, response, this.#upstream, this.counters, () =>
      this.#live.delete(exchange),
    );
    this.#live.add(exchange);
    this.#requests.push(exchange.record);
    this.counters.requests += 1;
    exchange.start(this.#partitioned ? { kind: 'stall' } : this.#rules.take(request));
  }

  #matching(match?: Matcher): Exchange[] {
    return [...this.#live].filter(({ request }) => matches(match, request));
  }
}

/** Starts a proxy in front of a server. Resolves when the proxy listens. */
export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const url = new URL(options.upstream);
  const pool = { keepAlive: true, maxSockets: Infinity };
  const agent =
    url.protocol === 'https:' ? new HttpsAgent({ ...pool, ca: options.upstreamCaPem }) : new HttpAgent(pool);
  const wantsTls = options.tls ?? url.protocol === 'https:';
  const proxy = new FaultProxy(await freePort(), wantsTls ? await identity() : undefined, { url, agent });
  await proxy.accept();
  return proxy;
}

async function identity(): Promise<{ certPem: string; keyPem: string; caPem: string }> {
  const ca = await CertificateAuthority.create('keyferry-fault-proxy-ca');
  return { ...(await ca.server('fault-proxy')), caPem: ca.certPem };
}
