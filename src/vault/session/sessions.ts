/**
 * Shares the sessions of the process: all rules with the same identity at the same Vault use one session.
 * Invariants: each `acquire` adds one user to a session, until its `release`. A session without users stays open for
 * a minute, and longer while it waits after a failed login. So a rule that is deleted and created again causes no
 * second login, and cannot evade the wait after a refused login. Sessions with the same server and TLS settings share
 * connections, which are closed together with the last of these sessions.
 */
import type { Timer } from '../../runtime/clock.ts';
import { getOrCreate } from '../../runtime/maps.ts';
import { KeyedLock } from '../../runtime/queue/keyed-lock.ts';
import { VaultClient, type VaultClientOptions } from '../client/client.ts';
import { VaultError } from '../errors.ts';
import { VaultEntries } from '../kv/entries.ts';
import { sessionKey, type VaultIdentity } from './identity.ts';
import { VaultSession } from './session.ts';
import type { SessionObserver } from './token.ts';
import type { VaultServer } from '../client/server.ts';

export interface VaultSessionsOptions extends VaultClientOptions {
  readonly onEvent?: SessionObserver | undefined;
  /** Time limit of a read that may create credentials, ms: databases create users slowly. Default: as other calls. */
  readonly credentialsTimeoutMs?: number | undefined;
}

/** A session that one user has acquired and not yet released. */
export interface SessionRef {
  readonly session: VaultSession;
  readonly entries: VaultEntries;
  /** Acquires the session once more, for a user that needs it longer. */
  acquire(): SessionRef;
  /** Safe to call more than once. */
  release(): void;
}

/** A client and the number of open sessions that use it. */
interface SharedClient {
  readonly client: VaultClient;
  sessions: number;
}

interface OpenSession extends Pick<SessionRef, 'session' | 'entries'> {
  readonly shared: SharedClient;
  users: number;
  linger: Timer | undefined;
}

/** How long a session without users stays logged in, ms. */
const LINGER_MS = 60_000;
const STOP_LIMIT_MS = 2_000;

export class VaultSessions {
  readonly #options: VaultSessionsOptions;
  readonly #largeAnswers = new KeyedLock();
  readonly #open = new Map<string, OpenSession>();
  readonly #clients = new Map<string, SharedClient>();
  readonly #closing = new Set<Promise<void>>();
  #stopped = false;

  constructor(options: VaultSessionsOptions) {
    this.#options = options;
  }

  /**
   * Returns the session of this identity. Does not log in: the first call of the session does.
   * @throws VaultError `invalidServer` with the name of the bad field; `closed` after `stop`
   */
  acquire(server: VaultServer, identity: VaultIdentity): SessionRef {
    if (this.#stopped) throw new VaultError('stopped', { kind: 'closed', addr: server.origin });
    const key = sessionKey(server, identity);
    const entry = this.#open.get(key) ?? this.#openSession(key, server, identity);
    entry.users++;
    entry.linger?.cancel();
    entry.linger = undefined;
    entry.session.setUnused(false);
    let held = true;
    const release = (): void => {
      if (!held) return;
      held = false;
      entry.users--;
      if (entry.users > 0 || this.#stopped) return;
      entry.session.setUnused(true);
      this.#linger(key, entry);
    };
    const { session, entries } = entry;
    return { session, entries, acquire: () => this.acquire(server, identity), release };
  }

  /**
   * Closes all sessions, and revokes their tokens that have no leases. After `limitMs` (default 2,000) it aborts the
   * calls that still have no answer, logins included. Never rejects.
   */
  async stop(limitMs = STOP_LIMIT_MS): Promise<void> {
    this.#stopped = true;
    for (const [key, entry] of this.#open) this.#close(key, entry);
    const timer = this.#options.clock.setTimeout(() => {
      for (const { client } of this.#clients.values()) client.close();
    }, limitMs);
    await Promise.all(this.#closing);
    timer.cancel();
  }

  #openSession(key: string, server: VaultServer, identity: VaultIdentity): OpenSession {
    const shared = getOrCreate(this.#clients, server.connectionKey, () => {
      return { client: new VaultClient(server, { ...this.#options, largeAnswers: this.#largeAnswers }), sessions: 0 };
    });
    shared.sessions++;
    const client = shared.client.identity();
    const session = new VaultSession({
      ...this.#options,
      client,
      namespace: identity.loginNamespace ?? server.namespace,
      entryNamespace: server.namespace,
      identity,
    });
    const entries = new VaultEntries(session, this.#options);
    const entry: OpenSession = { session, entries, shared, users: 0, linger: undefined };
    this.#open.set(key, entry);
    return entry;
  }

  #linger(key: string, entry: OpenSession): void {
    const end = (): void => {
      if (entry.session.state === 'failed') this.#linger(key, entry);
      else this.#close(key, entry);
    };
    entry.linger = this.#options.clock.setTimeout(end, LINGER_MS, { unref: true });
  }

  #close(key: string, entry: OpenSession): void {
    entry.linger?.cancel();
    this.#open.delete(key);
    const closing = this.#end(entry).finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  async #end({ session, shared }: OpenSession): Promise<void> {
    await session.close();
    shared.sessions--;
    if (shared.sessions > 0) return;
    this.#clients.delete(shared.client.server.connectionKey);
    shared.client.close();
  }
}
