/**
 * The two pools of connections to one server: `api` for calls (kept open, few), `streams` for watches (one connection each).
 *
 * The TLS material becomes one `SecureContext`: parsed once instead of per connection, and out of the key by which Node
 * looks up a pool on every request (it would hold the whole CA bundle).
 */
import { Agent as HttpAgent, type AgentOptions, type ClientRequestArgs } from 'node:http';
import { Agent as HttpsAgent, type RequestOptions } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createSecureContext } from 'node:tls';
import type { TlsMaterial } from './connection.ts';
import { ConnectionError } from './errors.ts';
import { openTunnel } from './proxy.ts';

/** A peer that vanished without a word is noticed by the kernel from this idle time on, in ms. */
const TCP_KEEPALIVE_MS = 30_000;
/** Idle connections are closed by us before the API server does it (90 s), else a call may be sent into the closing. */
const IDLE_MS = 55_000;

type Connected = (error: Error | null, socket: Duplex) => void;
type Failed = (error: Error | null) => void;

export interface Agents {
  readonly api: HttpAgent;
  readonly streams: HttpAgent;
  /** Whether no connection is in use. */
  readonly idle: boolean;
  /** No longer for new calls: idle connections close now, the others when their calls are done. */
  retire(): void;
  /** Closes every connection, also those in use. */
  destroy(): void;
}

export interface AgentTarget {
  readonly server: URL;
  readonly proxy: URL | undefined;
  readonly tls: TlsMaterial;
  readonly maxSockets: number;
}

/** @throws Error of OpenSSL where a certificate or key is not well-formed */
export function openAgents({ server, proxy, tls, maxSockets }: AgentTarget): Agents {
  const pool: AgentOptions = { keepAlive: true, maxSockets, scheduling: 'fifo', timeout: IDLE_MS };
  if (server.protocol !== 'https:') return pair(new PlainAgent(pool, proxy), new PlainAgent({}, proxy));
  const secure = {
    secureContext: createSecureContext({ ca: tls.ca, cert: tls.cert, key: tls.key }),
    rejectUnauthorized: tls.rejectUnauthorized,
    ALPNProtocols: ['http/1.1'],
    ...(tls.servername === undefined ? {} : { servername: tls.servername }),
  };
  return pair(new SecureAgent({ ...pool, ...secure }, proxy), new SecureAgent(secure, proxy));
}

function pair(api: PlainAgent | SecureAgent, streams: PlainAgent | SecureAgent): Agents {
  return {
    api,
    streams,
    get idle() {
      return Object.keys(api.sockets).length === 0 && Object.keys(streams.sockets).length === 0;
    },
    retire: () => {
      // What becomes idle from now on is closed instead of kept.
      api.maxFreeSockets = 0;
      for (const sockets of Object.values(api.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
    },
    destroy: () => {
      api.destroy();
      streams.destroy();
    },
  };
}

class PlainAgent extends HttpAgent {
  readonly #proxy: URL | undefined;
  #destroyed = false;

  constructor(options: AgentOptions, proxy: URL | undefined) {
    super(options);
    this.#proxy = proxy;
  }

  override createConnection(options: ClientRequestArgs, connected?: Connected): Duplex | null | undefined {
    if (this.#proxy === undefined) return tuned(super.createConnection(options));
    tunnel(
      this.#proxy,
      options,
      () => this.#destroyed,
      connected,
      (socket) => socket,
    );
    return undefined;
  }

  override destroy(): void {
    this.#destroyed = true;
    super.destroy();
  }
}

class SecureAgent extends HttpsAgent {
  readonly #proxy: URL | undefined;
  #destroyed = false;

  constructor(options: ConstructorParameters<typeof HttpsAgent>[0], proxy: URL | undefined) {
    super(options);
    this.#proxy = proxy;
  }

  override createConnection(options: RequestOptions, connected?: Connected): Duplex | null | undefined {
    if (this.#proxy === undefined) return tuned(super.createConnection(options));
    const secure = (socket: Socket): Duplex | null | undefined =>
      super.createConnection({ ...options, socket } as RequestOptions);
    tunnel(this.#proxy, options, () => this.#destroyed, connected, secure);
    return undefined;
  }

  override destroy(): void {
    this.#destroyed = true;
    super.destroy();
  }
}

/** Connects through the proxy, and hands on what `wrap` makes of the connection. */
function tunnel(
  proxy: URL,
  { host, port }: ClientRequestArgs,
  isDestroyed: () => boolean,
  connected: Connected | undefined,
  wrap: (socket: Socket) => Duplex | null | undefined,
): void {
  openTunnel(proxy, host ?? 'localhost', Number(port), (error, socket) => {
    if (socket === undefined) {
      (connected as Failed | undefined)?.(error);
      return;
    }
    // Node's agent would keep a socket that arrives after `destroy`.
    if (isDestroyed()) {
      socket.destroy();
      (connected as Failed | undefined)?.(new ConnectionError('ECLOSED', 'the client was closed'));
      return;
    }
    tune(socket);
    connected?.(null, wrap(socket) ?? socket);
  });
}

function tuned(socket: Duplex | null | undefined): Duplex | null | undefined {
  // Set on a socket that is not connected yet, the delay would be forgotten.
  socket?.once('connect', () => {
    tune(socket as Socket);
  });
  return socket;
}

function tune(socket: Socket): void {
  socket.setNoDelay(true);
  socket.setKeepAlive(true, TCP_KEEPALIVE_MS);
}
