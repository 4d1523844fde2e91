/**
 * Makes pools of connections to one server, direct or through a proxy.
 *
 * Each pool has one `SecureContext` with its CA bundle and client certificate. So these are parsed one time, not for
 * each connection. And the key of the pool, which Node computes for every request, does not contain the CA bundle.
 */
import { Agent, type AgentOptions, type ClientRequestArgs, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ConnectionOptions, createSecureContext } from 'node:tls';
import { HttpError } from './errors.ts';
import { hostAndPort } from './exchange.ts';

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

export interface PoolOptions extends Pick<
  AgentOptions,
  'keepAlive' | 'maxSockets' | 'scheduling' | 'timeout' | 'lookup'
> {
  readonly secure: boolean;
  /** HTTP proxy that opens a tunnel for each connection (CONNECT); `undefined`: direct connections. */
  readonly proxy?: URL | undefined;
  readonly tls: TlsMaterial;
}

type Connected = (error: Error | null, socket?: Duplex) => void;

/** Opens a connection and calls `opened` one time. At that time a TLS handshake may not yet be complete. */
export type Opener = (opened: (error: Error | null, socket?: Socket) => void) => void;

/** @throws Error of OpenSSL if a certificate or key is malformed */
export function openAgent({ secure, proxy, tls, ...pool }: PoolOptions): Agent {
  if (!secure) return connecting(new Agent(pool), proxy, (socket) => socket);
  const { servername, rejectUnauthorized, ...material } = tls;
  const agent = new HttpsAgent({
    ...pool,
    // As Go does, an intermediate CA and the server's own certificate in the bundle are trusted without their issuer.
    // Without a bundle this would make Node copy the CAs that it trusts for each pool.
    secureContext: createSecureContext({ ...material, allowPartialTrustChain: material.ca !== undefined }),
    rejectUnauthorized,
    ALPNProtocols: ['http/1.1'],
    servername,
  });
  const connect = agent.createConnection.bind(agent);
  return connecting(agent, proxy, (socket, options) => connect({ ...options, socket } as ClientRequestArgs));
}

/** Opens connections with the settings and TLS sessions of the agent, but outside its pool. */
export function openerOf(agent: Agent, { host, port }: { readonly host: string; readonly port: number }): Opener {
  const { options } = agent as Agent & { readonly options: ConnectionOptions };
  const target = { ...options, host, port, servername: options.servername ?? (isIP(host) === 0 ? host : '') };
  // Node stores TLS sessions under this key.
  const session = { ['_agentKey']: agent.getName(target) };
  return (opened) => {
    const socket = agent.createConnection({ ...target, ...session }, (error, made) => opened(error, made as Socket));
    if (socket !== null && socket !== undefined) opened(null, socket as Socket);
  };
}

/**
 * Makes the agent open its connections with TCP keep-alive, and through the proxy if there is one.
 * @param wrap turns the socket of a tunnel into the connection for requests: for TLS it starts the handshake
 */
function connecting(
  agent: Agent,
  proxy: URL | undefined,
  wrap: (socket: Socket, options: ClientRequestArgs) => Duplex | null | undefined,
): Agent {
  const connect = agent.createConnection.bind(agent);
  const destroy = agent.destroy.bind(agent);
  const closing = new AbortController();
  agent.destroy = () => {
    closing.abort();
    destroy();
  };
  agent.createConnection = (options, callback) => {
    const connected = callback as Connected | undefined;
    if (proxy === undefined) {
      const socket = connect(options)?.once('error', explain);
      // Node ignores a keep-alive delay if it is set before the socket is connected.
      socket?.once('connect', () => setOptions(socket as Socket));
      return socket;
    }
    openTunnel(proxy, options.host ?? 'localhost', Number(options.port), closing.signal, (error, socket) => {
      if (closing.signal.aborted) {
        // If a socket arrives after `destroy`, Node's agent would keep it open.
        socket?.destroy();
        connected?.(new HttpError('ECLOSED', 'the client was closed'));
      } else if (socket === undefined) {
        connected?.(error);
      } else {
        setOptions(socket);
        connected?.(null, wrap(socket, options)?.once('error', explain) ?? socket);
      }
    });
    return undefined;
  };
  return agent;
}

/** Texts of failed TLS handshakes: Node gives advice on its own flags, and OpenSSL does not say what is not supported. */
const ADVICE = /; if the root CA is installed locally, try running .*/;
const SIGNATURE = /certificate signature failure/;
const ONE_NAME = '$&: of several CAs in a bundle with one name and no key identifier, only the first is tried';

/** Corrects these texts in the error itself, because logs show causes and stacks, too. */
function explain(error: Error): void {
  const plain = (text: string): string => text.replace(ADVICE, '').replace(SIGNATURE, ONE_NAME);
  error.message = plain(error.message);
  error.stack = plain(error.stack ?? '');
}

function setOptions(socket: Socket): void {
  socket.setNoDelay(true);
  socket.setKeepAlive(true, TCP_KEEPALIVE_MS);
}

/** Longest wait for the proxy's answer, ms. The limit of the call is usually shorter. */
const TUNNEL_TIMEOUT_MS = 30_000;

export type TunnelCallback = (error: Error | null, socket?: Socket) => void;

/**
 * Opens a connection to `host:port` through the proxy (CONNECT), and calls `done` exactly one time.
 * @param signal aborts the request to the proxy while it has no answer
 * @param done gets a socket to the target, or an `HttpError` with the code `EPROXY`, which omits the proxy's password
 */
export function openTunnel(proxy: URL, host: string, port: number, signal: AbortSignal, done: TunnelCallback): void {
  const target = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  const { secure, ...address } = hostAndPort(proxy);
  const request = (secure ? httpsRequest : httpRequest)({
    ...address,
    method: 'CONNECT',
    path: target,
    headers: { Host: target, ...proxyAuthorization(proxy) },
    agent: false,
    timeout: TUNNEL_TIMEOUT_MS,
    signal,
  });
  let finished = false;
  const finish: TunnelCallback = (error, socket) => {
    if (finished) return;
    finished = true;
    done(error, socket);
  };
  const fail = (why: string, cause?: unknown): void => {
    finish(new HttpError('EPROXY', `proxy ${proxy.host}: no tunnel to ${target}: ${why}`, { cause }));
  };
  request.once('connect', (response, socket, head) => {
    socket.setTimeout(0);
    if (response.statusCode !== 200) {
      socket.destroy();
      fail(`it answered ${response.statusCode ?? 0} ${response.statusMessage ?? ''}`.trim());
      return;
    }
    if (head.length > 0) socket.unshift(head);
    finish(null, socket);
  });
  // A proxy that does not support CONNECT answers it with an ordinary response.
  request.once('response', (response) => {
    response.destroy();
    fail(`it answered ${response.statusCode ?? 0} ${response.statusMessage ?? ''}`.trim());
  });
  request.once('timeout', () => request.destroy(new Error(`no answer within ${TUNNEL_TIMEOUT_MS} ms`)));
  request.on('error', (error) => {
    explain(error);
    fail(error.message, error);
  });
  request.end();
}

/** The header with user name and password of the proxy's URL; no header if the URL has no user name. */
export function proxyAuthorization({ username, password }: URL): { readonly 'Proxy-Authorization'?: string } {
  if (username === '') return {};
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { 'Proxy-Authorization': `Basic ${Buffer.from(login).toString('base64')}` };
}
