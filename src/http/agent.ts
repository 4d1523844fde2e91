/**
 * A pool of connections to one server, direct or through a proxy.
 *
 * The TLS material becomes one `SecureContext`: it is parsed once instead of per connection, and it stays out of the key by
 * which Node looks up a pool on every request (that key would hold the whole CA bundle).
 */
import { Agent, type AgentOptions, type ClientRequestArgs, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ConnectionOptions, createSecureContext } from 'node:tls';
import { HttpError } from './errors.ts';
import { hostAndPort } from './exchange.ts';

/** The kernel probes a silent connection after this time, ms, to detect a lost peer. */
const TCP_KEEPALIVE_MS = 30_000;

/** CA and client certificate, PEM. */
export interface TlsMaterial {
  /** Default: the roots of Node. */
  readonly ca?: string | Buffer | undefined;
  /** Client certificate and its key: both or none. */
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
  /** HTTP proxy to tunnel through (CONNECT). */
  readonly proxy?: URL | undefined;
  readonly tls: TlsMaterial;
}

type Connected = (error: Error | null, socket?: Duplex) => void;

/** Opens a connection, and calls back once. Of TLS the handshake may still be under way. */
export type Opener = (opened: (error: Error | null, socket?: Socket) => void) => void;

/** @throws Error of OpenSSL where a certificate or key is not well-formed */
export function openAgent({ secure, proxy, tls, ...pool }: PoolOptions): Agent {
  if (!secure) return connecting(new Agent(pool), proxy, (socket) => socket);
  const { servername, rejectUnauthorized, ...material } = tls;
  const agent = new HttpsAgent({
    ...pool,
    secureContext: createSecureContext(material),
    rejectUnauthorized,
    ALPNProtocols: ['http/1.1'],
    servername,
  });
  const connect = agent.createConnection.bind(agent);
  return connecting(agent, proxy, (socket, options) => connect({ ...options, socket } as ClientRequestArgs));
}

/** Opens connections as the agent does, outside its pool. They share the sessions of TLS with those of the pool. */
export function openerOf(agent: Agent, { host, port }: { readonly host: string; readonly port: number }): Opener {
  const { options } = agent as Agent & { readonly options: ConnectionOptions };
  const target = { ...options, host, port, servername: options.servername ?? (isIP(host) === 0 ? host : '') };
  // Node keeps sessions by this key.
  const session = { ['_agentKey']: agent.getName(target) };
  return (opened) => {
    const socket = agent.createConnection({ ...target, ...session }, (error, made) => opened(error, made as Socket));
    if (socket !== null && socket !== undefined) opened(null, socket as Socket);
  };
}

/**
 * Makes the agent open its connections with TCP keep-alive, and through the proxy if there is one.
 * @param wrap makes the connection for requests from a tunnel
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
      const socket = connect(options);
      // Node ignores the delay if it is set before the socket is connected.
      socket?.once('connect', () => setOptions(socket as Socket));
      return socket;
    }
    openTunnel(proxy, options.host ?? 'localhost', Number(options.port), closing.signal, (error, socket) => {
      if (closing.signal.aborted) {
        // Node's agent would keep a socket that arrives after `destroy`.
        socket?.destroy();
        connected?.(new HttpError('ECLOSED', 'the client was closed'));
      } else if (socket === undefined) {
        connected?.(error);
      } else {
        setOptions(socket);
        connected?.(null, wrap(socket, options) ?? socket);
      }
    });
    return undefined;
  };
  return agent;
}

function setOptions(socket: Socket): void {
  socket.setNoDelay(true);
  socket.setKeepAlive(true, TCP_KEEPALIVE_MS);
}

/** Longest wait for the proxy's answer, in ms; a call's own limit is usually shorter. */
const TUNNEL_TIMEOUT_MS = 30_000;

export type TunnelCallback = (error: Error | null, socket?: Socket) => void;

/**
 * Opens a connection to `host:port` through the proxy (CONNECT), and calls back exactly once.
 * @param signal ends a request that the proxy has not answered
 * @param done gets a socket that is connected to the target, or `HttpError` EPROXY; the proxy's password is in neither
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
  // A proxy without support for CONNECT answers as to any other request.
  request.once('response', (response) => {
    response.destroy();
    fail(`it answered ${response.statusCode ?? 0} ${response.statusMessage ?? ''}`.trim());
  });
  request.once('timeout', () => request.destroy(new Error(`no answer within ${TUNNEL_TIMEOUT_MS} ms`)));
  request.on('error', (error) => fail(error.message, error));
  request.end();
}

/** The header with user and password of the proxy URL; none without a user. */
export function proxyAuthorization({ username, password }: URL): { readonly 'Proxy-Authorization'?: string } {
  if (username === '') return {};
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { 'Proxy-Authorization': `Basic ${Buffer.from(login).toString('base64')}` };
}
