/**
 * A reverse proxy on loopback between a client and a real server (Kubernetes or Vault). It makes the faults of a
 * network and of a busy server: rules apply them to new requests, `cutAll`, `stallAll` and `truncateAll` to running
 * ones.
 *
 * It has a TLS certificate of its own. So tokens pass to the server, and client certificates do not.
 *
 * States of the listener: open ⇄ refusing (`refuse`: no listener on the port), and open ⇄ partitioned (`partition`:
 * connections are accepted, and no byte is sent). After `stop` it is closed for ever.
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
  /** The authority of the real server's certificate, as PEM. */
  readonly upstreamCaPem?: string;
  /** Whether clients use TLS to the proxy. Default: if the real server does. */
  readonly tls?: boolean;
}

export class FaultProxy {
  /** The URL for clients, in place of the server's. */
  readonly url: string;
  /** The authority of the proxy's own certificate, as PEM; empty without TLS. */
  readonly caPem: string;
  /** Sums since the start or the last `reset`: bytes of HTTP bodies as they were encoded, as the client sees them. */
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

  /** For `startFaultProxy` only. */
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
    // No idle timeout, because a watch can be silent for any time.
    this.#http.requestTimeout = 0;
    this.#http.timeout = 0;
  }

  /** All requests in the order of their arrival. The records of running requests still change. */
  get requests(): readonly RequestRecord[] {
    return this.#requests;
  }

  /** The requests that have not ended. */
  live(match?: Matcher): readonly RequestRecord[] {
    return this.#matching(match).map(({ record }) => record);
  }

  /** Applies a fault to new requests. If several rules match a request, the oldest counts. */
  rule(rule: FaultRule): ActiveRule {
    return this.#rules.add(rule);
  }

  clearRules(): void {
    this.#rules.clear();
  }

  /** Sets the counters to zero, and forgets the requests that have ended. */
  reset(): void {
    Object.assign(this.counters, { requests: 0, bytesIn: 0, bytesOut: 0 });
    this.#requests.splice(0, this.#requests.length, ...this.#matching().map(({ record }) => record));
  }

  /** Breaks the connections of running requests. @returns their number */
  cutAll(match?: Matcher): number {
    const exchanges = this.#matching(match);
    for (const exchange of exchanges) exchange.cut();
    return exchanges.length;
  }

  /**
   * Running requests pass no more bytes, and their connections stay half-open, until either side cuts them.
   * @returns their number
   */
  stallAll(match?: Matcher): number {
    const exchanges = this.#matching(match);
    for (const exchange of exchanges) exchange.stall();
    return exchanges.length;
  }

  /**
   * Running requests pass `lines` more complete lines and half of the next. Then their connections break.
   * @returns their number
   */
  truncateAll(match?: Matcher, lines = 0): number {
    const exchanges = this.#matching(match);
    for (const exchange of exchanges) exchange.truncate(lines);
    return exchanges.length;
  }

  /** Breaks all connections, and refuses new ones (ECONNREFUSED) until `accept`. */
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

  /** Keeps all connections, old and new, open and silent until `heal`. */
  partition(): void {
    this.#partitioned = true;
    this.stallAll();
  }

  /** Ends a partition. Connections from before and from during it are broken, because their state is lost. */
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
    // The client reset its connection. The exchanges on it notice that themselves.
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

/** Starts a proxy before `upstream`. When this resolves, it listens. */
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
