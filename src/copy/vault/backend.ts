/** Vault as the engine sees it: entries as sources and as targets, with all that they share. */
import type { Clock } from '../../runtime/clock.ts';
import { withTimeout } from '../../runtime/abort.ts';
import { revokeLease } from '../../vault/leases.ts';
import { VaultSessions, type VaultSessionsOptions } from '../../vault/session/sessions.ts';
import type { SourceView } from '../model/claim.ts';
import type { Content } from '../model/content.ts';
import type { Engine } from '../engine.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import type { KubeStore } from '../cluster/store.ts';
import { parseResourceKey } from '../model/keys.ts';
import type { SourceReader } from '../sources.ts';
import { LONGEST_WAIT_MS, VaultAccess, type VaultTrouble } from './access.ts';
import { VaultCredentials } from './credentials.ts';
import { isVaultKey, VAULT_BACKEND, VaultLocations, type VaultLocation } from './locations.ts';
import { type Lease, type LeaseEvent, type LeaseTrace, VaultLeases } from './leases.ts';
import { VaultSources } from './sources.ts';
import { VaultTargets, type Written, type VaultTargetsOptions } from './targets.ts';

export interface VaultBackendOptions {
  readonly engine: Engine;
  readonly sources: SourceReader;
  /** Of the cluster in which the credentials and the copies of dynamic ones are. */
  readonly secrets: KubeStore;
  readonly clock: Clock;
  /** 0 ≤ r < 1. */
  readonly random: () => number;
  /** The longest that a call to Vault may take, ms. Default: 60,000. */
  readonly timeoutMs?: number;
  readonly sessions: Pick<
    VaultSessionsOptions,
    'onEvent' | 'onCall' | 'refusedDelaysMs' | 'addresses' | 'client' | 'maxRetries' | 'proxy'
  >;
  readonly onWrite: VaultTargetsOptions['onWrite'];
  /** Credentials that nobody uses could not be ended; they end with their time. */
  readonly onLeftLease: (key: ResourceKey, leaseId: string, error: unknown) => void;
  readonly onError: (key: ResourceKey, error: unknown, retryInMs: number | undefined) => void;
}

/** The longest that a call may take which makes no credentials, ms: none of them takes Vault longer than a moment. */
const CALL_LIMIT_MS = 10_000;

/** Told by the system whose sources are leased. */
export interface LeaseKeeper {
  tracesOf(key: ResourceKey): Iterable<LeaseTrace>;
  onLease(key: ResourceKey, event: LeaseEvent): void;
}

export class VaultBackend {
  readonly locations: VaultLocations;
  readonly sources: VaultSources;
  readonly #options: VaultBackendOptions;
  readonly #sessions: VaultSessions;
  readonly #credentials: VaultCredentials;
  readonly #access: VaultAccess;
  readonly #leases: VaultLeases;
  readonly #targets: VaultTargets;
  #keeper: LeaseKeeper | undefined;

  constructor(options: VaultBackendOptions) {
    const { engine, secrets, clock, random, timeoutMs = 60_000 } = options;
    this.#options = options;
    this.locations = new VaultLocations(
      (key) => {
        this.sources.refresh(key);
        if (engine.book.isClaimed(key)) engine.touchTarget(key);
      },
      (rule) => {
        engine.touchRule(rule);
      },
    );
    this.#sessions = new VaultSessions({
      ...options.sessions,
      clock,
      random,
      timeoutMs: Math.min(timeoutMs, CALL_LIMIT_MS),
      downMaxMs: LONGEST_WAIT_MS,
    });
    this.#credentials = new VaultCredentials(secrets);
    const { locations } = this;
    const credentials = this.#credentials;
    const access = (this.#access = new VaultAccess({
      sessions: this.#sessions,
      credentials,
      clock,
      credentialsTimeoutMs: timeoutMs,
    }));
    this.#leases = new VaultLeases({
      clock,
      random,
      tracesOf: (key) => this.#keeper?.tracesOf(key) ?? [],
      readCopy: (copy, { rule }, trace, signal) => this.#readCopy(copy, rule, trace, signal),
      onEvent: (key, event) => this.#keeper?.onLease(key, event),
      onDoubt: (key) => {
        this.sources.refresh(key);
      },
      onLeft: options.onLeftLease,
    });
    const common = { locations, access, credentials, clock, random };
    this.sources = new VaultSources({
      ...common,
      leases: this.#leases,
      onChange: (key) => {
        engine.touchSource(key);
      },
      onError: options.onError,
    });
    this.#targets = new VaultTargets({
      ...common,
      book: engine.book,
      sources: options.sources,
      cycleOf: (claim) => engine.cycles.of(claim),
      now: () => clock.now(),
      onOutcome: (entry, wrote) => {
        engine.outcomeChanged(entry, wrote);
      },
      onWrite: options.onWrite,
    });
    engine.addBackend(VAULT_BACKEND, this.#targets);
  }

  /** Who remembers leases over a restart, and tells users of them. */
  setKeeper(keeper: LeaseKeeper): void {
    this.#keeper = keeper;
  }

  view(key: ResourceKey): SourceView {
    return this.sources.view(key);
  }

  trouble(key: ResourceKey): VaultTrouble | undefined {
    return isVaultKey(key) ? this.sources.trouble(key) : undefined;
  }

  /** A Secret came, went or changed; or is now known not to be there. */
  secretChanged(secret: ResourceKey): void {
    for (const key of this.#credentials.usersOf(secret)) {
      this.sources.retry(key);
      if (!this.#options.engine.book.isClaimed(key)) continue;
      this.#targets.anew(key);
      this.#options.engine.retryTarget(key);
    }
  }

  /** A lease that is not over yet; also one that its rule has let go. */
  lease(leaseId: string): Lease | undefined {
    return this.#leases.find(leaseId);
  }

  /** The leases of a rule that are not over yet. */
  leasesOf(rule: RuleKey): Iterable<Lease> {
    return this.#leases.of(rule);
  }

  /** The rule is gone, and its leases are left to their time. */
  releaseLeases(rule: RuleKey): void {
    this.#leases.release(rule);
  }

  /**
   * Ends a lease that `rule` does not use any more: with the session that made it, while we have that, else with the login of `location`.
   * One that another rule lives by is left to that. Gives up after `limitMs`.
   * @throws whatever kept it from being ended
   */
  async endLease(rule: RuleKey, leaseId: string, location: VaultLocation | undefined, limitMs: number): Promise<void> {
    if (this.#leases.isLiveFor(leaseId, rule)) return;
    const lease = this.#leases.find(leaseId);
    if (lease?.state === 'dropped') lease.state = 'ending';
    const visitor = `revoke ${leaseId}`;
    try {
      const work = async (limited: AbortSignal): Promise<void> => {
        const session =
          lease?.hold.session ?? (location && (await this.#access.open(visitor, location, limited)).session);
        if (session === undefined) throw new Error('its login is not known any more');
        await revokeLease(session, leaseId, limited);
      };
      await withTimeout(work, { what: `revoking the lease ${leaseId}`, limitMs });
      this.#leases.ended(leaseId);
    } catch (error) {
      if (lease?.state === 'ending') lease.state = 'dropped';
      throw error;
    } finally {
      this.#access.close(visitor);
    }
  }

  /** What was last written to a target, or found there, as far as that is known. */
  written(target: ResourceKey): Written | undefined {
    return this.#targets.written(target);
  }

  /** The first half of a stop: polls under way end within `drainMs`. */
  async stopPolls(drainMs: number): Promise<void> {
    await this.sources.stop(drainMs);
    this.#leases.stop();
  }

  /** The second, when nobody writes any more: tokens are revoked, within `limitMs`, unless leases hang on them. */
  async stop(limitMs: number): Promise<void> {
    await this.#sessions.stop(limitMs);
  }

  /** @returns undefined if somebody else had a hand in it */
  async #readCopy(
    copy: ResourceKey,
    rule: RuleKey,
    { entryVersion }: LeaseTrace,
    signal: AbortSignal,
  ): Promise<Content | undefined> {
    if (isVaultKey(copy)) return await this.#targets.readBack(copy, rule, entryVersion, signal);
    const { secrets } = this.#options;
    const { namespace, name } = parseResourceKey(copy);
    if (secrets.index.get(namespace, name)?.ownKeys === undefined) return undefined;
    const read = await secrets.read(copy, signal);
    return read === undefined || read.content.keyCount === 0 ? undefined : read.content;
  }
}
