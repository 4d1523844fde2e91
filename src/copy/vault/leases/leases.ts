/**
 * Keeps the Vault leases of dynamic credentials. A lease belongs to one rule and one origin (`vaultLeaseOrigin`).
 *
 *   granted ─┐                      ┌─ renewed (after two thirds of the time until it expires)
 *            ├──▶ live ◀────────────┘
 *   restored ┘      ├──▶ due: `max_ttl` or the expiry of its token is near, or Vault no longer has it
 *                   └──▶ left: another lease of the same origin replaced it, or its rule no longer uses it
 *
 * Vault shows dynamic credentials only once, so their content is kept with the live lease. The status of the rule names
 * a lease before a copy has its credentials. After a restart, and when a rule returns to an origin, the content of this
 * lease comes from a copy that names it and that no other client has written. If there is no such copy, new credentials
 * are requested.
 *
 * When a token expires, Vault revokes the leases that were created with the token. So the last lease that a rule left
 * keeps the session of its token open until it expires or is revoked, because applications may still use the
 * credentials. With this token, Keyferry can also revoke the lease after the rule's login is gone. If the rule leaves
 * another lease, the one before ends by its TTL, or with its token.
 */
import type { Timer } from '../../../runtime/clock.ts';
import { isVaultError } from '../../../vault/errors.ts';
import type { LeaseGrant } from '../../../vault/kv/answers.ts';
import { type LeaseFacts, lookupLease, renewalVerdict, renewLease, revokeLease } from '../../../vault/lease-calls.ts';
import type { SessionRef } from '../../../vault/session/sessions.ts';
import type { Content } from '../../model/content.ts';
import type { EntryKey, ResourceKey, RuleKey } from '../../model/keys.ts';
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
  /** Called if unused credentials could not be revoked. They then stay valid until their lease expires. */
  readonly onRevokeFailed: (key: EntryKey, leaseId: string, error: unknown) => void;
}

/** The last lease that a rule left. Without the credentials, so that these do not stay in memory. */
interface LeftLease extends Pick<VaultLease, 'leaseId' | 'ref'> {
  /** Whether another lease of the same origin replaced it. Then it expires soon. */
  readonly isReplaced: boolean;
  /** Fires when the lease expires. */
  readonly end: Timer;
}

export const leaseVersion = (leaseId: string): string => `lease ${leaseId}`;

export class VaultLeases {
  readonly #options: VaultLeasesOptions;
  /** The leases that rules use, by lease id. */
  readonly #live = new Map<string, VaultLease>();
  readonly #left = new Map<RuleKey, LeftLease>();

  constructor(options: VaultLeasesOptions) {
    this.#options = options;
  }

  /** Adds the lease of new credentials. */
  granted(user: LeaseUser, connection: VaultConnection, grant: LeaseGrant, content: Content): VaultLease {
    const { clock } = this.#options;
    const issuedAt = clock.monotonic() - (clock.now() - grant.issuedAt);
    const lease = this.#add(user, connection.acquire(), { ...grant, issuedAt, content }, false);
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
    const { key, rule } = user;
    const record = this.#options.leaseRecordOf(key);
    if (record === undefined) return undefined;
    const { leaseId, durationSeconds, tokenExpiresAt = 0, copies } = record;
    if (copies.length === 0 || this.#live.has(leaseId)) return undefined;
    const facts = await this.#factsOf(leaseId, durationSeconds, connection, signal);
    if (facts === undefined) return undefined;
    for (const copy of copies) {
      const held = await this.#options.readCopy(copy, user, record, signal);
      // If the status of another rule names the same lease, that other rule may have restored it during the read.
      if (this.#live.has(leaseId)) return undefined;
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
      const lease = this.#add(user, connection.acquire(), restored, true);
      if (this.#left.get(rule)?.leaseId === leaseId) this.#end(rule);
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

  /** Called when another lease of the same origin replaces the lease. */
  replaced(lease: VaultLease): void {
    this.#leave(lease, true);
  }

  /** Called when the rule no longer uses the lease. */
  dropped(lease: VaultLease): void {
    this.#leave(lease, false);
  }

  /** The session in which the rule's lease can be revoked; `undefined`: none is kept open for it. */
  refOf(rule: RuleKey, leaseId: string): SessionRef | undefined {
    const left = this.#left.get(rule);
    return left?.leaseId === leaseId ? left.ref : this.#live.get(leaseId)?.ref;
  }

  /** The ids of the leases of a rule: of the live ones, and of the last one that it left. */
  *of(rule: RuleKey): Iterable<string> {
    for (const lease of this.#live.values()) if (lease.rule === rule) yield lease.leaseId;
    const left = this.#left.get(rule);
    if (left !== undefined) yield left.leaseId;
  }

  /** Server and age of each live lease, for metrics. */
  figures(): { readonly vault: string; readonly age: string }[] {
    return Array.from(this.#live.values(), (lease) => {
      return { vault: lease.ref.session.addr, age: ageOf(lease, this.#options.clock) };
    });
  }

  /** Whether a rule other than `not` uses the lease. */
  isUsedByOther(leaseId: string, not: RuleKey): boolean {
    const lease = this.#live.get(leaseId);
    return lease !== undefined && lease.rule !== not;
  }

  /** Whether the rule left this lease last, because another lease of the same origin replaced it. */
  isReplaced(rule: RuleKey, leaseId: string): boolean {
    const left = this.#left.get(rule);
    return left?.leaseId === leaseId && left.isReplaced;
  }

  /** Called when a lease that the rule left was revoked or has expired. */
  ended(rule: RuleKey, leaseId: string): void {
    const left = this.#left.get(rule);
    if (left?.leaseId !== leaseId) return;
    left.ref.session.forgetLease(leaseId);
    this.#end(rule);
  }

  /** Stops keeping the session of the lease that the rule left, for example because the rule is gone. */
  release(rule: RuleKey): void {
    const left = this.#left.get(rule);
    left?.ref.session.abandonLease(left.leaseId);
    this.#end(rule);
  }

  #end(rule: RuleKey): void {
    const left = this.#left.get(rule);
    left?.end.cancel();
    left?.ref.release();
    this.#left.delete(rule);
  }

  #leave({ rule, leaseId, ref, expiresAt }: VaultLease, isReplaced: boolean): void {
    // The poll that was running when the rule left the source reports its lease once more.
    if (this.#live.get(leaseId)?.ref !== ref) return;
    this.#live.delete(leaseId);
    this.release(rule);
    const { clock } = this.#options;
    const restMs = Math.max(0, expiresAt - clock.monotonic());
    const end = clock.setTimeout(() => this.ended(rule, leaseId), restMs, { unref: true });
    this.#left.set(rule, { leaseId, ref, isReplaced, end });
  }

  #add(
    { key, rule }: LeaseUser,
    ref: SessionRef,
    facts: Omit<LeaseGrant, 'tokenId'> & { readonly tokenId?: string | undefined; readonly content: Content },
    isRecorded: boolean,
  ): VaultLease {
    const { clock } = this.#options;
    const { leaseId, durationSeconds, renewable, issuedAt, tokenId, content } = facts;
    const lease: VaultLease = {
      key,
      rule,
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
    };
    updateTokenEnd(lease);
    this.#live.set(leaseId, lease);
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
