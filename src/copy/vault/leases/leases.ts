/**
 * Keeps the leases of dynamic credentials: they are renewed early, and replaced before they expire.
 *
 *   granted ─┐                      ┌─ renewed (after two thirds of its life)
 *            ├──▶ live ◀────────────┘
 *   restored ┘      ├──▶ due: `max_ttl` or the expiry of its token is near, or Vault no longer has it
 *                   ├──▶ replaced: another lease of the same origin replaced it; it is valid until it expires
 *                   └──▶ dropped: its rule no longer uses it; it is valid until it is revoked (`ending`) or expires
 *
 * A lease belongs to one rule and one origin (`vaultLeaseOrigin`). A dropped lease becomes live again if its rule
 * returns to this origin before the lease is revoked.
 *
 * Credentials cannot be read twice, so their content stays with the lease. After a restart the content comes from a
 * copy that is marked with the lease; new credentials are requested only if there is no such copy.
 *
 * A lease expires with the token that made it. So even a replaced or dropped lease holds the session of this token,
 * because applications may still use its credentials. The token can revoke the lease when its login is gone.
 */
import { isVaultError } from '../../../vault/errors.ts';
import type { LeaseGrant } from '../../../vault/kv/answers.ts';
import { type LeaseFacts, lookupLease, renewalVerdict, renewLease, revokeLease } from '../../../vault/lease-calls.ts';
import type { SessionHold } from '../../../vault/session/sessions.ts';
import { Content } from '../../model/content.ts';
import type { EntryKey, ResourceKey, RuleKey } from '../../model/keys.ts';
import { SECRET } from '../../model/kind.ts';
import type { VaultConnection } from '../access/access.ts';
import { ageOf, type Lease, type LeaseUser, maintainLease, updateTokenEnd, type UpkeepOptions } from './lease.ts';

/** The record of a lease in the status of its rule and on its copies. */
export interface LeaseRecord {
  readonly leaseId: string;
  /** Duration of the last grant or renewal; 0: unknown. */
  readonly durationSeconds: number;
  /** When the token was going to expire, ms since 1970; `undefined`: unknown. */
  readonly tokenExpiresAt: number | undefined;
  /** Copies with the credentials of the lease, according to their metadata. */
  readonly copies: readonly ResourceKey[];
  /** For a copy that is an entry in Vault: the version with the credentials. */
  readonly entryVersion?: string | undefined;
}

export interface VaultLeasesOptions extends UpkeepOptions {
  /** 0 ≤ r < 1. */
  readonly random: () => number;
  /** The recorded leases of the rule of a source, as far as they have the origin of this source. */
  readonly leaseRecordsOf: (key: EntryKey) => Iterable<LeaseRecord>;
  /** The credentials in a copy, if no other client wrote to it. */
  readonly readCopy: (
    copy: ResourceKey,
    user: LeaseUser,
    record: LeaseRecord,
    signal: AbortSignal,
  ) => Promise<Content | undefined>;
  /** Called if the lease of this source may no longer be valid: the source must be polled. */
  readonly onUncertain: (key: EntryKey) => void;
  /** Called if unused credentials could not be revoked. They then expire. */
  readonly onRevokeFailed: (key: EntryKey, leaseId: string, error: unknown) => void;
}

/**
 * Most replaced and dropped leases of one rule that are kept; beyond it the oldest are released. Each poll would add
 * one, if a Vault reports each lease as missing, or a user edits a path again and again.
 */
const MAX_RETIRED = 10;
/** Content of a replaced lease, which is never used again. */
const NO_CONTENT = Content.ofFields(SECRET, { data: {} }, '', '');

export const leaseVersion = (leaseId: string): string => `lease ${leaseId}`;

export class VaultLeases {
  readonly #options: VaultLeasesOptions;
  /** The leases by id, until they are revoked or expire. */
  readonly #known = new Map<string, Lease>();

  constructor(options: VaultLeasesOptions) {
    this.#options = options;
  }

  /** Adds the lease of new credentials. */
  granted(user: LeaseUser, connection: VaultConnection, grant: LeaseGrant, content: Content): Lease {
    const { clock } = this.#options;
    const issuedAt = clock.monotonic() - (clock.now() - grant.issuedAt);
    const lease = this.#live(user, connection.hold(), { ...grant, issuedAt, content });
    this.#options.onEvent(user.key, { type: 'granted', leaseId: grant.leaseId });
    return lease;
  }

  /** Revokes new credentials that cannot be used. Never rejects. */
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
   * Finds a valid lease that the rule had before a restart, or before it used another origin, with its credentials.
   * @param type that of the content
   * @throws VaultError, ApiError, ConnectionError
   */
  async restore(
    user: LeaseUser,
    connection: VaultConnection,
    type: string,
    signal: AbortSignal,
  ): Promise<Lease | undefined> {
    const { key } = user;
    for (const record of this.#options.leaseRecordsOf(key)) {
      const { leaseId, durationSeconds, tokenExpiresAt = 0, copies } = record;
      const resumed = this.#resume(user, leaseId, type);
      if (resumed !== undefined) return resumed;
      if (copies.length === 0 || this.#known.has(leaseId)) continue;
      const facts = await this.#factsOf(leaseId, durationSeconds, connection, signal);
      if (facts === undefined) continue;
      for (const copy of copies) {
        const held = await this.#options.readCopy(copy, user, record, signal);
        // Another rule whose status names the same lease may have restored the lease meanwhile.
        if (this.#known.has(leaseId)) break;
        if (held === undefined) continue;
        const content = held.withVersion(leaseVersion(leaseId), type);
        const { clock } = this.#options;
        const now = clock.now();
        const leftMs = facts.expiresAt === undefined ? durationSeconds * 1000 : facts.expiresAt - now;
        // The time of the last renewal is unknown. Most probably it gave the recorded duration. Without a record, the
        // remaining time counts as the duration.
        const seconds = durationSeconds > 0 ? durationSeconds : Math.max(0, Math.round(leftMs / 1000));
        const issuedAt = clock.monotonic() + leftMs - seconds * 1000;
        const { renewable } = facts;
        const restored = { leaseId, durationSeconds: seconds, renewable, issuedAt, content };
        const lease = this.#live(user, connection.hold(), restored);
        // A token that should have expired by now was renewed after its expiry was recorded.
        if (tokenExpiresAt > now) lease.tokenExpiresAt = tokenExpiresAt;
        this.#options.onEvent(key, { type: 'restored', leaseId });
        return lease;
      }
    }
    return undefined;
  }

  /** @see maintainLease */
  async maintain(lease: Lease, pollMs: number, signal: AbortSignal): ReturnType<typeof maintainLease> {
    return await maintainLease(lease, pollMs, this.#options, signal);
  }

  /** Called when another lease of the same origin replaces this one, which is then kept until it expires. */
  replaced(lease: Lease): void {
    this.#retire(lease, 'replaced');
    lease.content = NO_CONTENT;
  }

  /** Called when the rule no longer uses the lease, which is then kept until it is revoked or expires. */
  dropped(lease: Lease): void {
    if (lease.state === 'live') this.#retire(lease, 'dropped');
  }

  /** Whether the rule of a source has a recorded lease of its origin. */
  hasRecord(key: EntryKey): boolean {
    for (const _ of this.#options.leaseRecordsOf(key)) return true;
    return false;
  }

  /** The lease with an id, if it has not ended. */
  find(leaseId: string): Lease | undefined {
    return this.#known.get(leaseId);
  }

  /** All leases of a rule that have not ended. */
  *of(rule: RuleKey): Iterable<Lease> {
    for (const lease of this.#known.values()) if (lease.rule === rule) yield lease;
  }

  /** The leases that have not ended, for metrics. */
  figures(): { readonly vault: string; readonly state: Lease['state']; readonly age: string }[] {
    return Array.from(this.#known.values(), (lease) => {
      return { vault: lease.hold.session.addr, state: lease.state, age: ageOf(lease, this.#options.clock) };
    });
  }

  /** Whether another rule uses the lease. */
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
    // The rule started to use the lease again during the revocation.
    lease.checkedAt = -Infinity;
    this.#options.onUncertain(lease.key);
  }

  /** Called when the rule is gone: its leases expire. */
  release(rule: RuleKey): void {
    for (const lease of this.of(rule)) {
      if (lease.state === 'live') continue;
      this.#forget(lease);
      lease.hold.release();
    }
  }

  stop(): void {
    for (const lease of this.#known.values()) lease.end?.cancel();
  }

  #retire(lease: Lease, state: 'replaced' | 'dropped'): void {
    const { clock } = this.#options;
    const left = [...this.of(lease.rule)].filter(({ state: its }) => its === 'replaced' || its === 'dropped');
    for (const oldest of left.slice(0, Math.max(0, left.length - MAX_RETIRED + 1))) this.#end(oldest);
    lease.state = state;
    lease.watch[Symbol.dispose]();
    const rest = Math.max(0, lease.expiresAt - clock.monotonic());
    lease.end = clock.setTimeout(() => this.#end(lease), rest, { unref: true });
  }

  #end(lease: Lease): void {
    this.#forget(lease);
    lease.hold.session.forgetLease(lease.leaseId);
    lease.hold.release();
  }

  #forget(lease: Lease): void {
    lease.end?.cancel();
    if (this.#known.get(lease.leaseId) === lease) this.#known.delete(lease.leaseId);
  }

  /** Makes a dropped lease of the rule live again. */
  #resume(user: LeaseUser, leaseId: string, type: string): Lease | undefined {
    const kept = this.#known.get(leaseId);
    if (kept?.state !== 'dropped' || kept.rule !== user.rule) return undefined;
    if (kept.expiresAt <= this.#options.clock.monotonic()) return undefined;
    this.#forget(kept);
    const content = kept.content.withVersion(kept.content.version, type);
    this.#options.onEvent(user.key, { type: 'restored', leaseId });
    // The lease is looked up at once, because another client may have revoked it.
    const unchecked = { checkedAt: -Infinity, isGone: false, isLookupForbidden: false };
    return this.#add({ ...kept, ...unchecked, key: user.key, state: 'live', content });
  }

  #live(
    { key, rule }: LeaseUser,
    hold: SessionHold,
    facts: Omit<LeaseGrant, 'tokenId'> & { readonly tokenId?: string | undefined; readonly content: Content },
  ): Lease {
    const { clock, random } = this.#options;
    const { leaseId, durationSeconds, renewable, issuedAt, tokenId, content } = facts;
    return this.#add({
      key,
      rule,
      state: 'live',
      leaseId,
      content,
      fullSeconds: durationSeconds,
      durationSeconds,
      issuedAt,
      expiresAt: issuedAt + durationSeconds * 1000,
      renewable,
      tokenId,
      tokenExpiresAt: undefined,
      jitter: random(),
      hold,
      checkedAt: clock.monotonic(),
      isGone: false,
      isLookupForbidden: false,
    });
  }

  #add(facts: Omit<Lease, 'watch'>): Lease {
    const { key, leaseId, hold, tokenId } = facts;
    const watch = hold.session.watchTokens((id) => {
      if (id === tokenId) this.#options.onUncertain(key);
    });
    const lease: Lease = { ...facts, watch };
    updateTokenEnd(lease);
    this.#known.set(leaseId, lease);
    return lease;
  }

  /** The facts of a lease; `undefined` if it has ended. If a policy forbids the lookup, a renewal tells them. */
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
