/**
 * A reverse proxy on loopback between a client and a real server (Kubernetes or Vault), which makes the faults of a
 * network and of a busy server: for requests to come by rules, for those that run by `cutAll` and `stallAll`.
 *
 * It ends TLS itself, with a certificate of its own: tokens pass, client certificates do not.
 *
 * States of the listener: open ⇄ refusing (`refuse`: nothing listens on the port) and open ⇄ partitioned (`partition`:
 * connections are taken and nothing is ever said). `stop` is final.
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
  /** URL of the real server. */
  readonly upstream: string;
  /** PEM of the authority of the real server's certificate. */
  readonly upstreamCaPem?: string;
  /** Whether the client speaks TLS to the proxy. Default: as the upstream's URL. */
  readonly tls?: boolean;
}

export class FaultProxy {
  /** What the client is given in place of the upstream's URL. */
  readonly url: string;
  /** PEM of the authority of the proxy's own certificate; empty without TLS. */
  readonly caPem: string;
  /** Since the start or the last `reset`, in bytes of HTTP bodies as encoded on the wire, from the client's point of view. */
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

  /** Not to be called: `startFaultProxy` is. */
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
    // A watch may say nothing for as long as it likes.
    this.#http.requestTimeout = 0;
    this.#http.timeout = 0;
  }

  /** Every request in the order of arrival. The records of running ones still change. */
  get requests(): readonly RequestRecord[] {
    return this.#requests;
  }

  /** Requests that have not ended. */
  live(match?: Matcher): readonly RequestRecord[] {
    return this.#matching(match).map(({ record }) => record);
  }

  /** Puts a fault in force for requests to come. The oldest rule that matches meets a request. */
  rule(rule: FaultRule): ActiveRule {
    return this.#rules.add(rule);
  }

  clearRules(): void {
    this.#rules.clear();
  }

  /** Sets the counters to zero and forgets the requests that have ended. */
  reset(): void {
    Object.assign(this.counters, { requests: 0, bytesIn: 0, bytesOut: 0 });
    this.#requests.splice(0, this.#requests.length, ...this.#matching().map(({ record }) => record));
  }

  /** Breaks the connections of running requests now; returns how many. */
  cutAll(match?: Matcher): number {
    const exchanges = this.#matching(match);
    for (const exchange of exchanges) exchange.cut();
    return exchanges.length;
  }

  /** Running requests pass not a byte from now on, and their connections stay: half-open. Ended by a cut of either side. */
  stallAll(match?: Matcher): number {
    const exchanges = this.#matching(match);
    for (const exchange of exchanges) exchange.stall();
    return exchanges.length;
  }

  /** Running requests get `lines` more whole lines, half of the next one, and their connections break. */
  truncateAll(match?: Matcher, lines = 0): number {
    const exchanges = this.#matching(match);
    for (const exchange of exchanges) exchange.truncate(lines);
    return exchanges.length;
  }

  /** Breaks all connections and refuses new ones (ECONNREFUSED) until `accept`. */
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

  /** The cable is pulled: all connections, old and new, stay silent until `heal`. */
  partition(): void {
    this.#partitioned = true;
    this.stallAll();
  }

  /** The cable is back; connections from before and during the partition are broken, as their state is lost. */
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
    // A client that hangs up in an unfriendly way; its exchanges notice by themselves.
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

/** Starts a proxy before `upstream`; it listens when this resolves. */
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
