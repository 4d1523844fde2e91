/**
 * The connections of one client. If the TLS material (CA, client certificate, key) changes, later calls open new
 * connections. An older connection is closed when its calls and streams have ended.
 */
import type { Agent } from 'node:http';
import { isUnused, openAgent, retire, type TlsMaterial } from '../http/agent.ts';
import { type Route, routeTo } from '../http/exchange.ts';
import type { AuthHeaders, Connection } from './connection.ts';
import { CredentialError } from './errors.ts';

/** The version of Keyferry. The bundler defines it; without a bundle it is not declared. */
declare const KEYFERRY_VERSION: string | undefined;

/** Idle time before a connection is closed, ms. The server closes after 90 s, so no call meets a closing connection. */
const IDLE_MS = 55_000;

export class ConnectionPools {
  /** The current agent, and older ones that still carry calls and streams. */
  readonly #all = new Set<Agent>();
  #current: { readonly agent: Agent; readonly tls: TlsMaterial } | undefined;
  #route: { readonly route: Route; readonly auth: AuthHeaders } | undefined;

  /** The connections with this TLS material. @throws CredentialError if the material cannot be used */
  of({ server, proxy, origin, credentials }: Connection, tls: TlsMaterial): Agent {
    if (this.#current?.tls === tls) return this.#current.agent;
    let agent: Agent;
    try {
      agent = openAgent(routeTo(server, [], proxy), { tls, idleMs: IDLE_MS });
    } catch (error) {
      // During a rotation the certificate may not match the key yet, so the next call reads both again.
      credentials.invalidate();
      const why = error instanceof Error ? error.message : String(error);
      throw new CredentialError(`${origin}: the CA, client certificate or client key cannot be used: ${why}`, {
        cause: error,
      });
    }
    this.retire();
    for (const old of this.#all) if (isUnused(old)) this.#all.delete(old);
    this.#all.add(agent);
    this.#current = { agent, tls };
    return agent;
  }

  /** The server's address, and the headers that every request with these credentials has. */
  routeOf({ server, proxy }: Connection, auth: AuthHeaders): Route {
    if (this.#route?.auth === auth) return this.#route.route;
    const version = typeof KEYFERRY_VERSION === 'string' ? KEYFERRY_VERSION : 'dev';
    const headers = ['User-Agent', `keyferry/${version}`];
    for (const [name, value] of Object.entries(auth)) {
      for (const one of typeof value === 'string' ? [value] : value) headers.push(name, one);
    }
    const route = routeTo(server, headers, proxy);
    this.#route = { route, auth };
    return route;
  }

  /** Later calls open new connections. Running calls and streams end on the connections that they use. */
  retire(): void {
    if (this.#current !== undefined) retire(this.#current.agent);
    this.#current = undefined;
  }

  /** Ends all calls and streams. */
  destroy(): void {
    for (const agent of this.#all) agent.destroy();
    this.#all.clear();
    this.#current = undefined;
  }
}
