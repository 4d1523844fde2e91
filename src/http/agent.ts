/**
 * Makes pools of connections to one server, direct or through a proxy.
 *
 * Each pool has one `SecureContext` with its CA bundle and client certificate. So these are parsed one time, not for
 * each connection. And the key of the pool, which Node computes for every request, does not contain the CA bundle.
 */
import { Agent, type AgentOptions, type ClientRequest } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Socket } from 'node:net';
import { createSecureContext } from 'node:tls';
import { Agent as ConnectingAgent, type AgentConnectOpts } from 'agent-base';
import type { Route } from './exchange.ts';

/** If nothing arrives on a connection for this time, ms, the kernel checks whether the peer still exists. */
const TCP_KEEPALIVE_MS = 30_000;

/** CA certificates, client certificate and other TLS settings of a pool. Certificates and key are PEM. */
export interface TlsMaterial {
  /** Trusted CAs, roots or intermediate ones, and certificates of servers. Default: the public CAs that Node has. */
  readonly ca?: string | Buffer | undefined;
  /** Client certificate. Set together with its `key`, or neither is set. */
  readonly cert?: string | Buffer | undefined;
  readonly key?: string | Buffer | undefined;
  /** The name for SNI, which the server's certificate must carry. Default: the host of the URL. */
  readonly servername?: string | undefined;
  readonly rejectUnauthorized: boolean;
}

interface PoolOptions extends Pick<AgentOptions, 'maxSockets' | 'lookup'> {
  /** Time after which an idle connection is closed, and longest time to open a tunnel through a proxy, ms. */
  readonly idleMs: number;
  readonly tls: TlsMaterial;
}

/** @throws Error of OpenSSL if a certificate or key is malformed */
export function openAgent({ secure, tunnel }: Route, { tls, idleMs, ...more }: PoolOptions): Agent {
  const pool: AgentOptions = { ...more, keepAlive: true, keepAliveMsecs: TCP_KEEPALIVE_MS, timeout: idleMs };
  const { servername, rejectUnauthorized, ...material } = tls;
  // As Go does, an intermediate CA and the server's own certificate in the bundle are trusted without their issuer.
  // Without a bundle this would make Node copy the CAs that it trusts for each pool.
  const allowPartialTrustChain = material.ca !== undefined;
  const tlsOptions = {
    secureContext: createSecureContext(secure ? { ...material, allowPartialTrustChain } : {}),
    rejectUnauthorized,
    ALPNProtocols: ['http/1.1'],
    servername,
  };
  if (tunnel?.protocol === 'socks5:') return new SocksAgent(tunnel, { ...pool, ...tlsOptions });
  if (!secure) return new Agent(pool);
  return new HttpsAgent({ ...pool, ...tlsOptions, ...(tunnel && { proxyEnv: { HTTPS_PROXY: tunnel.href } }) });
}

/** Opens connections through a SOCKS5 proxy. Its package is loaded for the first of them, because few need it. */
class SocksAgent extends ConnectingAgent {
  readonly #proxy: URL;

  constructor(proxy: URL, options: AgentOptions) {
    super(options);
    // As in kubectl, the proxy resolves the name of the server. For the package, that is `socks5h`.
    this.#proxy = new URL(proxy.href.replace('socks5:', 'socks5h:'));
  }

  override async connect(request: ClientRequest, options: AgentConnectOpts): Promise<Socket> {
    const { SocksProxyAgent } = await import('socks-proxy-agent');
    return await new SocksProxyAgent(this.#proxy).connect(request, options);
  }
}

/** Closes the connections that no request uses. */
export function closeIdle({ freeSockets }: Agent): void {
  for (const sockets of Object.values(freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}

/** Closes idle connections now, and each other connection after its request. */
export function retire(agent: Agent): void {
  agent.maxFreeSockets = 0;
  closeIdle(agent);
}
