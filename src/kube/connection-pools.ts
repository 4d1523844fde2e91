/**
 * The connections of one client. If the TLS material (CA, client certificate, key) changes, later calls open new
 * connections. An older connection is closed when its calls and streams have ended.
 */
import type { Agent } from 'node:http';
import { openAgent, openerOf, type TlsMaterial } from '../http/agent.ts';
import { hostAndPort, type Route, routeTo } from '../http/exchange.ts';
import { KeptConnections } from '../http/kept-connections.ts';
import type { AuthHeaders, Connection } from './connection.ts';
import { CredentialError } from './errors.ts';

/** The connections that use the same TLS material. */
export interface Pools {
  /** For calls: a few connections, which stay open. */
  readonly calls: KeptConnections;
  /** For watches: each has its own connection. */
  readonly streams: Agent;
}

/** The version of Keyferry. The bundler defines it; without a bundle it is not declared. */
declare const KEYFERRY_VERSION: string | undefined;

/** Idle time before a connection is closed, ms. The server closes after 90 s, so no call meets a closing connection. */
const IDLE_MS = 55_000;

export class ConnectionPools {
  /** The current pools, and older ones that still carry streams. */
  readonly #all = new Set<Pools>();
  #current: { readonly pools: Pools; readonly tls: TlsMaterial } | undefined;
  #route: { readonly route: Route; readonly auth: AuthHeaders } | undefined;

  /** The pools for this TLS material, opened if it is new. @throws CredentialError if the material cannot be used */
  of({ server, proxy, origin, credentials }: Connection, tls: TlsMaterial): Pools {
    if (this.#current?.tls === tls) return this.#current.pools;
    const { secure, ...address } = hostAndPort(server);
    let pools: Pools;
    try {
      const streams = openAgent({ secure, proxy, tls });
      pools = { streams, calls: new KeptConnections(openerOf(streams, address), IDLE_MS) };
    } catch (error) {
      // During a rotation the certificate may not match the key yet, so the next call reads both again.
      credentials.invalidate();
      const why = error instanceof Error ? error.message : String(error);
      throw new CredentialError(`${origin}: the CA, client certificate or client key cannot be used: ${why}`, {
        cause: error,
      });
    }
    this.retire();
    for (const old of this.#all) if (isIdle(old)) this.#all.delete(old);
    this.#all.add(pools);
    this.#current = { pools, tls };
    return pools;
  }

  /** The server's address, and the headers that every request with these credentials has. */
  routeOf({ server }: Connection, auth: AuthHeaders): Route {
    if (this.#route?.auth === auth) return this.#route.route;
    const version = typeof KEYFERRY_VERSION === 'string' ? KEYFERRY_VERSION : 'dev';
    const headers = ['User-Agent', `keyferry/${version}`];
    for (const [name, value] of Object.entries(auth)) {
      for (const one of typeof value === 'string' ? [value] : value) headers.push(name, one);
    }
    const route = routeTo(server, headers);
    this.#route = { route, auth };
    return route;
  }

  /** Later calls open new connections. Running calls and streams end on the connections that they use. */
  retire(): void {
    this.#current?.pools.calls.retire();
    this.#current = undefined;
  }

  /** Ends all calls and streams. */
  destroy(): void {
    for (const { calls, streams } of this.#all) {
      calls.destroy();
      streams.destroy();
    }
    this.#all.clear();
    this.#current = undefined;
  }
}

/** Whether no connection is in use. */
function isIdle({ calls, streams }: Pools): boolean {
  return calls.isIdle && Object.keys(streams.sockets).length === 0;
}
