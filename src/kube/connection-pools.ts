/**
 * The connections of one client. A change of the TLS material opens new connections. The older ones end with the calls
 * and streams that they carry.
 */
import type { Agent } from 'node:http';
import { openAgent, openerOf, type TlsMaterial } from '../http/agent.ts';
import { hostAndPort, type Route, routeTo } from '../http/exchange.ts';
import { KeptConnections } from '../http/kept-connections.ts';
import type { AuthHeaders, Connection } from './connection.ts';
import { CredentialError } from './errors.ts';

/** Connections with the same TLS material. */
export interface Pools {
  /** For calls: kept open, few. */
  readonly calls: KeptConnections;
  /** For watches: one connection each. */
  readonly streams: Agent;
}

/** The version of Keyferry, which the bundler defines. */
declare const KEYFERRY_VERSION: string | undefined;

/** The API server closes idle connections after 90 s. This is earlier, so that no call is sent on a closing one. */
const IDLE_MS = 55_000;

export class ConnectionPools {
  /** The current pools, and older ones that still carry streams. */
  readonly #all = new Set<Pools>();
  #current: { readonly pools: Pools; readonly tls: TlsMaterial } | undefined;
  #route: { readonly route: Route; readonly auth: AuthHeaders } | undefined;

  /** The pools for this TLS material. @throws CredentialError if the material cannot be used */
  of({ server, proxy, origin, credentials }: Connection, tls: TlsMaterial): Pools {
    if (this.#current?.tls === tls) return this.#current.pools;
    const { secure, ...address } = hostAndPort(server);
    let pools: Pools;
    try {
      const streams = openAgent({ secure, proxy, tls });
      pools = { streams, calls: new KeptConnections(openerOf(streams, address), IDLE_MS) };
    } catch (error) {
      // While they are rotated, certificate and key may not match, so the next call reads them again.
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

  /** Server and headers of a request with these credentials. */
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

  /** Later calls get new connections. The present connections carry their calls and streams to the end. */
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
