/**
 * The connections of one client. If the TLS material (CA, client certificate, key) changes, later calls open new
 * connections. An older connection is closed when its calls and streams have ended.
 */
import type { Agent } from 'node:http';
import { isUnused, openAgent, retire, type TlsMaterial } from '../http/agent.ts';
import { routeTo } from '../http/exchange.ts';
import type { Connection } from './connection.ts';
import { CredentialError } from './errors.ts';

/** Idle time before a connection is closed, ms. The server closes after 90 s, so no call meets a closing connection. */
const IDLE_MS = 55_000;

export class ConnectionPools {
  /** The current agent, and older ones that still carry calls and streams. */
  readonly #all = new Set<Agent>();
  #current: { readonly agent: Agent; readonly tls: TlsMaterial } | undefined;

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
