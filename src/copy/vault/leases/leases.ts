/**
 * Keeps the Vault leases of dynamic credentials, and knows the state of each lease.
 *
 *   granted ─┐                      ┌─ renewed (after two thirds of the time until it expires)
 *            ├──▶ live ◀────────────┘
 *   restored ┘      ├──▶ due: `max_ttl` or the expiry of its token is near, or Vault no longer has it
 *                   ├──▶ replaced: another lease of the same origin replaced it; it is valid until it expires
 *                   └──▶ dropped: its rule no longer uses it; it is valid until it is revoked (`ending`) or expires
 *
 * A lease belongs to one rule and one origin (`vaultLeaseOrigin`). A dropped lease becomes live again if its rule
 * returns to this origin before the lease is revoked.
 *
 * Vault shows dynamic credentials only once, so their content is kept with the lease. The status of the rule names a
 * lease before a copy has its credentials. After a restart, the content of this lease comes from a copy that names it
 * and that no other client has written. If there is no such copy, new credentials are requested.
 *
 * When a token expires, Vault revokes the leases that were created with the token. So even a replaced or dropped lease
 * keeps the session of its token open, because applications may still use the credentials. With this token, Keyferry
 * can also revoke the lease after the rule's login is gone.
 */
import { isVaultError } from '../../../vault/errors.ts';
import type { LeaseGrant } from '../../../vault/kv/answers.ts';
import { type LeaseFacts, lookupLease, renewalVerdict, renewLease, revokeLease } from '../../../vault/lease-calls.ts';
import type { SessionRef } from '../../../vault/session/sessions.ts';
import { Content } from '../../model/content.ts';
import type { EntryKey, ResourceKey, RuleKey } from '../../model/keys.ts';
import { SECRET } from '../../model/kind.ts';
import type { VaultConnection } from '../access/access.ts';
import { ageOf, type VaultLease, type LeaseUser, maintainLease, updateTokenEnd, type UpkeepOptions } from './lease.ts';

/** The lease that the status of a rule names. */
export interface LeaseRecord {
  readonly leaseId: string;
  /** Duration of the last grant or renewal; 0: unknown. */
  readonly durationSeconds: number;
  /** When the token of the lease expires without a renewal, ms since 1970; `undefined`: unknown. */
  readonly tokenExpiresAt: number | undefined;
  /** The copies that name the lease. */
  readonly copies: readonly ResourceKey[];
  /** If a copy is an entry in Vault: the version of the entry that has the credentials. */
  readonly entryVersion?: string | undefined;
}

interface VaultLeasesOptions extends UpkeepOptions {
  /** The recorded lease of a source's rule, but only if it has the origin of this source. */
  readonly leaseRecordOf: (key: EntryKey) => LeaseRecord | undefined;
  /** The credentials in a copy; `undefined`: another client wrote to the copy. */
  readonly readCopy: (
    copy: ResourceKey,
    user: LeaseUser,
    record: LeaseRecord,
    signal: AbortSignal,
  ) => Promise<Content | undefined>;
  /** Called if the lease of this source may have ended: the source must be polled. */
  readonly onUncertain: (key: EntryKey) => void;
  /** Called if unused credentials could not be revoked. They then stay valid until their lease expires. */
  readonly onRevokeFailed: (key: EntryKey, leaseId: string, error: unknown) => void;
}

/**
 * Most replaced and dropped leases that are kept for one rule. If there are more, the oldest is released. The limit is
 * needed if Vault reports every lease as missing, or a user edits the path all the time: each poll then adds a lease.
 */
const MAX_RETIRED = 10;
/** Replaces the content of a replaced lease, so that its credentials do not stay in memory. */
const NO_CONTENT = Content.ofFields(SECRET, { data: {} }, '', '');

export const leaseVersion = (leaseId: string): string => `lease ${leaseId}`;

export class VaultLeases {
  readonly #options: VaultLeasesOptions;
  /** The leases, by lease id, until they are revoked or expire. */
  readonly #known = new Map<string, VaultLease>();

  constructor(options: VaultLeasesOptions) {
    this.#options = options;
  }

  /** Adds the lease of new credentials. */
  granted(user: LeaseUser, connection: VaultConnection, grant: LeaseGrant, content: Content): VaultLease {
    const { clock } = this.#options;
    const issuedAt = clock.monotonic() - (clock.now() - grant.issuedAt);
    const lease = this.#live(user, connection.acquire(), { ...grant, issuedAt, content }, false);
    this.#options.onEvent(user.key, { type: 'granted', leaseId: grant.leaseId });
    return lease;
  }

  /** Revokes new credentials that cannot be used. Never rejects: `onRevokeFailed` gets the error. */
  async discard(
    { key }: Pick<LeaseUser, 'key'>,
    connection: VaultConnection,
    leaseId: string,
    signal?: AbortSignal,
  ): Promise<void> {
    try {
      await revokeLease(connection.session, leaseId, signal);
    } catch (error) {
      this.#options.onRevokeFailed(key, leaseId, error);
    }
  }

  /**
   * Finds the recorded lease, with its credentials, if it is valid.
   * @param type the type that the content gets
   * @throws VaultError, ApiError, ConnectionError
   */
  async restore(
    user: LeaseUser,
    connection: VaultConnection,
    type: string,
    signal: AbortSignal,
  ): Promise<VaultLease | undefined> {
    const { key } = user;
    const record = this.#options.leaseRecordOf(key);
    if (record === undefined) return undefined;
    const { leaseId, durationSeconds, tokenExpiresAt = 0, copies } = record;
    const resumed = this.#resume(user, leaseId, type);
    if (resumed !== undefined) return resumed;
    if (copies.length === 0 || this.#known.has(leaseId)) return undefined;
    const facts = await this.#factsOf(leaseId, durationSeconds, connection, signal);
    if (facts === undefined) return undefined;
    for (const copy of copies) {
      const held = await this.#options.readCopy(copy, user, record, signal);
      // If the status of another rule names the same lease, that other rule may have restored it during the read.
      if (this.#known.has(leaseId)) return undefined;
      if (held === undefined) continue;
      const content = held.withVersion(leaseVersion(leaseId), type);
      const { clock } = this.#options;
      const now = clock.now();
      const leftMs = facts.expiresAt === undefined ? durationSeconds * 1000 : facts.expiresAt - now;
      // The time of the last renewal is computed: at that time the lease had the recorded duration left. If none is
      // recorded, the remaining time counts as the duration.
      const seconds = durationSeconds > 0 ? durationSeconds : Math.max(0, Math.round(leftMs / 1000));
      const issuedAt = clock.monotonic() + leftMs - seconds * 1000;
      const { renewable } = facts;
      const restored = { leaseId, durationSeconds: seconds, renewable, issuedAt, content };
      const lease = this.#live(user, connection.acquire(), restored, true);
      // If the recorded expiry of the token has passed, the token was renewed later: then its expiry is unknown.
      if (tokenExpiresAt > now) lease.tokenExpiresAt = tokenExpiresAt;
      this.#options.onEvent(key, { type: 'restored', leaseId });
      return lease;
    }
    return undefined;
  }

  /** @see maintainLease */
  async maintain(lease: VaultLease, pollMs: number, signal: AbortSignal): ReturnType<typeof maintainLease> {
    return await maintainLease(lease, pollMs, this.#options, signal);
  }

  /** Called when another lease of the same origin replaces the lease. The replaced lease is kept until it expires. */
  replaced(lease: VaultLease): void {
    this.#retire(lease, 'replaced');
    lease.content = NO_CONTENT;
  }

  /** Called when the rule no longer uses the lease. The lease is then kept until it is revoked or expires. */
  dropped(lease: VaultLease): void {
    if (lease.state === 'live') this.#retire(lease, 'dropped');
  }

  /** The lease with this id; `undefined`: it is not known, or has ended. */
  find(leaseId: string): VaultLease | undefined {
    return this.#known.get(leaseId);
  }

  /** All leases of a rule that have not ended. */
  *of(rule: RuleKey): Iterable<VaultLease> {
    for (const lease of this.#known.values()) if (lease.rule === rule) yield lease;
  }

  /** Server, state and age of each lease that has not ended, for metrics. */
  figures(): { readonly vault: string; readonly state: VaultLease['state']; readonly age: string }[] {
    return Array.from(this.#known.values(), (lease) => {
      return { vault: lease.ref.session.addr, state: lease.state, age: ageOf(lease, this.#options.clock) };
    });
  }

  /** Whether a rule other than `not` uses the lease. */
  isUsedByOther(leaseId: string, not: RuleKey): boolean {
    const lease = this.#known.get(leaseId);
    return lease?.state === 'live' && lease.rule !== not;
  }

  /** Called when the lease was revoked. */
  ended(leaseId: string): void {
    const lease = this.#known.get(leaseId);
    if (lease === undefined) return;
    if (lease.state !== 'live') {
      this.#end(lease);
      return;
    }
    // During the revocation the rule has started to use the lease again. So the lease is looked up at once.
    lease.checkedAt = -Infinity;
    this.#options.onUncertain(lease.key);
  }

  /** Called when the rule is gone: Keyferry no longer keeps its leases, and they expire in Vault. */
  release(rule: RuleKey): void {
    for (const lease of this.of(rule)) {
      if (lease.state === 'live') continue;
      this.#forget(lease);
      lease.ref.release();
    }
  }

  stop(): void {
    for (const lease of this.#known.values()) lease.end?.cancel();
  }

  #retire(lease: VaultLease, state: 'replaced' | 'dropped'): void {
    const { clock } = this.#options;
    const left = [...this.of(lease.rule)].filter(({ state: its }) => its === 'replaced' || its === 'dropped');
    for (const oldest of left.slice(0, Math.max(0, left.length - MAX_RETIRED + 1))) this.#end(oldest);
    lease.state = state;
    const rest = Math.max(0, lease.expiresAt - clock.monotonic());
    lease.end = clock.setTimeout(() => this.#end(lease), rest, { unref: true });
  }

  #end(lease: VaultLease): void {
    this.#forget(lease);
    lease.ref.session.forgetLease(lease.leaseId);
    lease.ref.release();
  }

  #forget(lease: VaultLease): void {
    lease.end?.cancel();
    if (this.#known.get(lease.leaseId) === lease) this.#known.delete(lease.leaseId);
  }

  /** Makes a dropped lease of the rule live again. */
  #resume(user: LeaseUser, leaseId: string, type: string): VaultLease | undefined {
    const kept = this.#known.get(leaseId);
    if (kept?.state !== 'dropped' || kept.rule !== user.rule) return undefined;
    if (kept.expiresAt <= this.#options.clock.monotonic()) return undefined;
    this.#forget(kept);
    const content = kept.content.withVersion(kept.content.version, type);
    this.#options.onEvent(user.key, { type: 'restored', leaseId });
    // The lease is looked up at once, because another client may have revoked it.
    const unchecked = { checkedAt: -Infinity, isLookupForbidden: false };
    return this.#add({ ...kept, ...unchecked, key: user.key, state: 'live', content });
  }

  #live(
    { key, rule }: LeaseUser,
    ref: SessionRef,
    facts: Omit<LeaseGrant, 'tokenId'> & { readonly tokenId?: string | undefined; readonly content: Content },
    isRecorded: boolean,
  ): VaultLease {
    const { clock } = this.#options;
    const { leaseId, durationSeconds, renewable, issuedAt, tokenId, content } = facts;
    return this.#add({
      key,
      rule,
      state: 'live',
      isRecorded,
      leaseId,
      content,
      fullSeconds: durationSeconds,
      durationSeconds,
      issuedAt,
      expiresAt: issuedAt + durationSeconds * 1000,
      renewable,
      tokenId,
      tokenExpiresAt: undefined,
      jitter: Math.random(),
      ref,
      checkedAt: clock.monotonic(),
      isLookupForbidden: false,
    });
  }

  #add(lease: VaultLease): VaultLease {
    updateTokenEnd(lease);
    this.#known.set(lease.leaseId, lease);
    return lease;
  }

  /** When a lease expires and whether it is renewable; `undefined`: it has ended. Renews it if no lookup is allowed. */
  async #factsOf(
    leaseId: string,
    seconds: number,
    { session }: VaultConnection,
    signal: AbortSignal,
  ): Promise<LeaseFacts | undefined> {
    try {
      return await lookupLease(session, leaseId, signal);
    } catch (error) {
      if (!isVaultError(error, 'permissionDenied')) throw error;
    }
    try {
      const askedAt = this.#options.clock.now();
      const { durationSeconds, renewable } = await renewLease(session, leaseId, seconds, signal);
      return { expiresAt: askedAt + durationSeconds * 1000, renewable };
    } catch (error) {
      if (isVaultError(error) && renewalVerdict(error) === 'replace') return undefined;
      throw error;
    }
  }
}
