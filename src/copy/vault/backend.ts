/** Vault as a backend: its entries are sources and targets, which share sessions, credentials and leases. */
import { withTimeout } from '../../runtime/abort.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { VaultAddresses } from '../../vault/client/server.ts';
import { revokeLease } from '../../vault/lease-calls.ts';
import { VaultSessions, type VaultSessionsOptions } from '../../vault/session/sessions.ts';
import type { Backend, TargetQueueing } from '../engine/backend.ts';
import type { NamedQueue } from '../engine/controller.ts';
import type { KubeStore } from '../cluster/objects/store.ts';
import type { Engine } from '../engine/engine.ts';
import type { Content } from '../model/content.ts';
import {
  type EntryKey,
  isEntryKey,
  type LoginKey,
  type ObjectKey,
  type ResourceKey,
  type RuleKey,
  serverOf,
  VAULT_BACKEND,
} from '../model/keys.ts';
import { VaultAccess, type VaultConnection, vaultLongestWaitMs } from './access/access.ts';
import { VaultCredentials } from './access/credentials.ts';
import type { EnvironmentToken } from './access/login-tokens.ts';
import type { LeaseEvent } from './leases/lease.ts';
import { type LeaseRecord, VaultLeases } from './leases/leases.ts';
import { VaultLocations, type VaultLocation } from './locations.ts';
import { VaultSources, type VaultSourcesOptions } from './poll/sources.ts';
import { VaultTargets, type VaultTargetsOptions } from './targets.ts';

export interface VaultBackendOptions {
  readonly engine: Engine;
  /** The Secrets of the home cluster: those with Vault credentials, and the copies of dynamic credentials. */
  readonly secrets: KubeStore;
  readonly clock: Clock;
  /** Time limit of a call to Vault, ms. */
  readonly timeoutMs: number;
  /** The addresses of the Vault servers that may be called. */
  readonly addresses: VaultAddresses;
  /** Settings of the Vault client that hold for every server, for example the proxy. */
  readonly environment: Pick<VaultSessionsOptions, 'client' | 'proxy'>;
  /** Returns the token from the environment of the process, for logins with the method `environment`. */
  readonly environmentToken?: EnvironmentToken;
  readonly onCall: VaultSessionsOptions['onCall'];
  readonly onSession: VaultSessionsOptions['onEvent'];
  readonly onWrite: VaultTargetsOptions['onWrite'];
  /** Called if an unused lease could not be revoked. The lease then stays valid until it expires. */
  readonly onRevokeFailed: (key: EntryKey, leaseId: string, error: unknown) => void;
  readonly onError: VaultSourcesOptions['onError'];
}

/** How many targets are reconciled at the same time on each server. */
const CONCURRENCY = 16;
/** Time limit of calls that create no credentials, ms. Such calls are fast. */
const CALL_LIMIT_MS = 10_000;
/** How long a stop waits for running polls, ms. Their responses may contain leases, which must not be lost. */
const DRAIN_MS = 500;
/** Time limit of the revocation of Keyferry's tokens at a stop, ms. */
const REVOKE_MS = 2000;

type OnCredential = (user: LoginKey) => void;

/** The controller whose rules have leases: it records leases in the status of a rule, and reports them to users. */
export interface LeaseObserver {
  leaseRecordOf(key: EntryKey): LeaseRecord | undefined;
  onLease(key: EntryKey, event: LeaseEvent): void;
}

export class VaultBackend implements Backend {
  readonly name = VAULT_BACKEND;
  readonly queueing: TargetQueueing = {
    name: 'targets',
    concurrency: CONCURRENCY,
    laneOf: (target) => `vault ${isEntryKey(target) ? serverOf(target) : ''}`,
    shareBy: 'rule',
    longestWaitMs: vaultLongestWaitMs,
  };
  readonly watches = [];
  readonly addresses: VaultAddresses;
  readonly locations: VaultLocations;
  readonly sources: VaultSources;
  readonly targets: VaultTargets;
  readonly leases: VaultLeases;
  readonly #options: VaultBackendOptions;
  readonly #sessions: VaultSessions;
  readonly #credentials: VaultCredentials;
  readonly #access: VaultAccess;
  #onCredential: OnCredential | undefined;
  #leaseObserver: LeaseObserver | undefined;

  constructor(options: VaultBackendOptions) {
    const { addresses, clock, engine, secrets, timeoutMs } = options;
    this.#options = options;
    this.addresses = addresses;
    this.locations = new VaultLocations((key) => {
      this.sources.refresh(key);
      if (engine.book.isClaimed(key)) engine.enqueueTarget(key);
    });
    this.#sessions = new VaultSessions({
      ...options.environment,
      addresses,
      onCall: options.onCall,
      onEvent: options.onSession,
      clock,
      timeoutMs: Math.min(timeoutMs, CALL_LIMIT_MS),
      credentialsTimeoutMs: timeoutMs,
    });
    const credentials = (this.#credentials = new VaultCredentials(secrets, options.environmentToken));
    const sessions = this.#sessions;
    const access = (this.#access = new VaultAccess({ sessions, credentials }));
    this.leases = new VaultLeases({
      clock,
      leaseRecordOf: (key) => this.#leaseObserver?.leaseRecordOf(key),
      readCopy: (copy, { rule }, trace, signal) => this.#readCopy(copy, rule, trace, signal),
      onEvent: (key, event) => this.#leaseObserver?.onLease(key, event),
      onRevokeFailed: options.onRevokeFailed,
    });
    const common = { locations: this.locations, access, clock };
    this.sources = new VaultSources({
      ...common,
      leases: this.leases,
      onChange: (key) => engine.enqueueSource(key),
      onError: options.onError,
    });
    this.targets = new VaultTargets({
      ...common,
      claims: engine.claims,
      cycles: engine.cycles,
      sources: engine.backends,
      now: () => clock.now(),
      onOutcome: (entry, wrote) => engine.outcomeChanged(entry, wrote),
      onWrite: options.onWrite,
    });
    // A Secret may have the credential of a login to Vault. So when the Secret changes, the login is tried again.
    const retry = (key: ObjectKey): void => this.#credentialKnown(key);
    engine.onObjects({ objectChanged: retry, objectKnown: retry });
  }

  sourcesOf(): VaultSources {
    return this.sources;
  }

  targetsOf(): VaultTargets {
    return this.targets;
  }

  get queues(): readonly NamedQueue[] {
    return this.sources.queues;
  }

  get cachedBytes(): number {
    return this.sources.cachedBytes;
  }

  /**
   * Access to Vault for the controller that reads and writes entries itself, without the queues and claims of this
   * backend.
   * @param onCredential called when a credential has changed with which this controller has opened a connection
   */
  directAccess(onCredential: OnCredential): Pick<VaultAccess, 'open' | 'close'> {
    this.#onCredential = onCredential;
    return this.#access;
  }

  setLeaseObserver(observer: LeaseObserver): void {
    this.#leaseObserver = observer;
  }

  /** Called when a Secret is known or has changed: retries the sources and targets that log in with this Secret. */
  #credentialKnown(secret: ObjectKey): void {
    for (const key of this.#credentials.usersOf(secret)) {
      if (!isEntryKey(key)) {
        if (this.#access.isOutdated(key)) this.#onCredential?.(key);
        continue;
      }
      this.sources.retry(key);
      if (this.#options.engine.book.isClaimed(key)) this.#options.engine.retryTarget(key);
    }
  }

  /**
   * Revokes a lease that `rule` no longer uses: in the session that is kept open for the lease, or, if there is none,
   * with the login of `location`. Does nothing if another rule uses the lease. Gives up after `limitMs`.
   * @throws the reason why the lease could not be revoked
   */
  async revokeLease(
    rule: RuleKey,
    leaseId: string,
    location: VaultLocation | undefined,
    limitMs: number,
  ): Promise<void> {
    if (this.leases.isUsedByOther(leaseId, rule)) return;
    const ref = this.leases.refOf(rule, leaseId);
    const work = async (limited: AbortSignal): Promise<void> => {
      const revoke = async ({ session }: Pick<VaultConnection, 'session'>): Promise<void> =>
        await revokeLease(session, leaseId, limited);
      if (ref !== undefined) await revoke(ref);
      else if (location !== undefined) await this.#access.once(location, limited, revoke);
      else throw new Error('the Vault login that created the lease is no longer configured');
    };
    await withTimeout(work, { what: `revoking the lease ${leaseId}`, limitMs });
    this.leases.ended(rule, leaseId);
  }

  /** Ends the polls. */
  async drain(): Promise<void> {
    await this.sources.stop(DRAIN_MS);
  }

  /** Revokes Keyferry's tokens, except tokens with leases: Vault would revoke these leases, too. */
  async stop(limitMs: number): Promise<void> {
    await this.#sessions.stop(Math.min(REVOKE_MS, limitMs));
  }

  /** The dynamic credentials in a copy; `undefined` if another client wrote to the copy. */
  async #readCopy(
    copy: ResourceKey,
    rule: RuleKey,
    { entryVersion }: LeaseRecord,
    signal: AbortSignal,
  ): Promise<Content | undefined> {
    if (isEntryKey(copy)) return await this.targets.readBack(copy, rule, entryVersion, signal);
    const { secrets } = this.#options;
    if (secrets.index.find(copy)?.ownKeys === undefined) return undefined;
    const read = await secrets.read(copy, signal);
    return read === undefined || read.content.fingerprint.keys === '' ? undefined : read.content;
  }
}
