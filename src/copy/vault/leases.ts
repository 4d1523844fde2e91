/**
 * The leases by which dynamic credentials live: renewed ahead of their end, replaced before they die.
 *
 *   granted ─┐                      ┌─ renewed (two thirds of its life are over)
 *            ├──▶ live ◀────────────┘
 *   recalled ┘      ├──▶ due: `max_ttl` or the end of its token is near; Vault does not know it any more
 *                   ├──▶ replaced: another lease of the same origin took its place; it lives on until its time is over
 *                   └──▶ dropped: its rule does not use it any more; it lives on until it is revoked or its time is over
 *
 * A lease belongs to one rule and one origin (`vaultLeaseOrigin`). One that was dropped is taken up again where its rule comes back to
 * that origin before it was ended.
 *
 * Credentials cannot be read twice, so their content stays with the lease. After a restart it is taken from a copy that is marked with
 * the lease: only where none is left are new credentials asked for. A lease holds the session that made it, because it
 * dies with the token of that session; a replaced or dropped one for as long as it lives, since its users may not have changed yet. So the
 * token in use can still revoke it when its credential is gone.
 *
 * The times of a lease are on the monotonic clock: a wall clock that is set back must not make us take it for alive.
 */
import type { Clock, Timer } from '../../runtime/clock.ts';
import { isVaultError } from '../../vault/errors.ts';
import type { LeaseGrant } from '../../vault/kv-answers.ts';
import { leasePlan } from '../../vault/lease-plan.ts';
import { type LeaseFacts, lookupLease, renewalVerdict, renewLease, revokeLease } from '../../vault/leases.ts';
import type { SessionHold } from '../../vault/session/sessions.ts';
import { Content } from '../model/content.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import { SECRET } from '../model/kind.ts';
import type { VaultConnection } from './access.ts';

/** What is remembered of a lease elsewhere: in a rule's status, and on copies. */
export interface LeaseTrace {
  readonly leaseId: string;
  /** Of the last grant or renewal; 0: not known. */
  readonly durationSeconds: number;
  /** When the token that it hangs on was to end, ms since 1970, where that is known. */
  readonly tokenExpiresAt: number | undefined;
  /** Copies that hold its credentials, as far as can be seen without reading them. */
  readonly copies: readonly ResourceKey[];
  /** Which version of a copy that is an entry in Vault holds them. */
  readonly entryVersion?: string | undefined;
}

/** Whom a lease is for. */
export interface Lessee {
  /** Of the source. */
  readonly key: ResourceKey;
  readonly rule: RuleKey;
}

export type LeaseEvent =
  | { readonly type: 'granted' | 'renewed' | 'recalled'; readonly leaseId: string }
  | { readonly type: 'renewFailed'; readonly leaseId: string; readonly httpStatus: number | undefined };

export interface VaultLeasesOptions {
  readonly clock: Clock;
  /** 0 ≤ r < 1. */
  readonly random: () => number;
  /** Of leases of the origin that the key stands for, and of its rule. */
  readonly tracesOf: (key: ResourceKey) => Iterable<LeaseTrace>;
  /** The credentials that a copy holds, if nobody but us has written them. */
  readonly readCopy: (
    copy: ResourceKey,
    lessee: Lessee,
    trace: LeaseTrace,
    signal: AbortSignal,
  ) => Promise<Content | undefined>;
  readonly onEvent: (key: ResourceKey, event: LeaseEvent) => void;
  /** A lease should be looked at again. */
  readonly onDoubt: (key: ResourceKey) => void;
  /** Credentials that nobody uses could not be ended at once; they end with their time. */
  readonly onLeft: (key: ResourceKey, leaseId: string, error: unknown) => void;
}

export interface Lease extends Lessee {
  /** `ending`: dropped, and about to be revoked. */
  state: 'live' | 'replaced' | 'dropped' | 'ending';
  readonly leaseId: string;
  content: Content;
  readonly fullSeconds: number;
  durationSeconds: number;
  /** Monotonic ms, as the next one and `checkedAt`. */
  issuedAt: number;
  expiresAt: number;
  renewable: boolean;
  /** `undefined`: of a token from before a restart. */
  readonly tokenId: string | undefined;
  /** When its token ends if we do not renew it, ms since 1970; `undefined`: not known, or of no importance. */
  tokenExpiresAt: number | undefined;
  readonly jitter: number;
  readonly hold: SessionHold;
  readonly watch: Disposable;
  checkedAt: number;
  /** A policy forbids to look it up. */
  blind: boolean;
}

/**
 * A lease from before a restart hangs on a token that nobody renews any more. Where its end was not written down in time, so often the
 * lease is looked up, whatever the poll period, ms. Its credentials are dead for no longer than that.
 */
const UNSURE_POLL_MS = 10_000;
/** A token's end that is known to be another by no more than this is no news, ms. */
const TOKEN_END_TOLERANCE_MS = 2000;
/** After this share of what is left of a token's life it is looked whether it was renewed: that is due after two thirds of all. */
const TOKEN_LOOK = 0.7;
const SHORTEST_TOKEN_LOOK_MS = 1000;
/**
 * Leases of one rule that are held after it left them. A Vault that says of each lease that it is gone, or an author who edits a path
 * again and again, makes a rule leave one with every poll; the oldest ones are forgotten then.
 */
const MOST_LEFT = 10;
/** Of a replaced lease, whose credentials are never given out again. */
const NO_CONTENT = Content.ofFields(SECRET, { data: {} }, '', '');

/** What Vault answers about a lease that it does not know. */
const LEASE_GONE_STATUS = 400;

export const leaseVersion = (leaseId: string): string => `lease ${leaseId}`;

export class VaultLeases {
  readonly #options: VaultLeasesOptions;
  /** By id, until they are over. */
  readonly #known = new Map<string, Lease>();
  /** Of those that nobody renews. */
  readonly #ends = new Map<Lease, Timer>();

  constructor(options: VaultLeasesOptions) {
    this.#options = options;
  }

  /** New credentials were read. */
  granted(lessee: Lessee, connection: VaultConnection, grant: LeaseGrant, content: Content): Lease {
    const { clock } = this.#options;
    const { leaseId, durationSeconds, renewable, tokenId } = grant;
    const issuedAt = clock.monotonic() - (clock.now() - grant.issuedAt);
    const lease = this.#live(lessee, connection.hold(), {
      leaseId,
      durationSeconds,
      renewable,
      issuedAt,
      tokenId,
      content,
    });
    this.#options.onEvent(lessee.key, { type: 'granted', leaseId });
    return lease;
  }

  /** New credentials were read that nobody can use: they are ended. Never rejects. */
  async discard(
    { key }: Pick<Lessee, 'key'>,
    connection: VaultConnection,
    leaseId: string,
    signal?: AbortSignal,
  ): Promise<void> {
    try {
      await revokeLease(connection.session, leaseId, signal);
    } catch (error) {
      this.#options.onLeft(key, leaseId, error);
    }
  }

  /**
   * The lease that the rule held before a restart, or before it went elsewhere for a while, if it lives and its credentials are still known.
   * @param type of the content
   * @throws VaultError, what the API server answers
   */
  async recall(
    lessee: Lessee,
    connection: VaultConnection,
    type: string,
    signal: AbortSignal,
  ): Promise<Lease | undefined> {
    const { key } = lessee;
    for (const trace of this.#options.tracesOf(key)) {
      const { leaseId, durationSeconds, tokenExpiresAt = 0, copies } = trace;
      const revived = this.#revive(lessee, leaseId, type);
      if (revived !== undefined) return revived;
      if (copies.length === 0 || this.#known.has(leaseId)) continue;
      const facts = await this.#factsOf(leaseId, durationSeconds, connection, signal);
      if (facts === undefined) continue;
      for (const copy of copies) {
        const held = await this.#options.readCopy(copy, lessee, trace, signal);
        // Another rule may have taken it up meanwhile, whose status names the same one.
        if (this.#known.has(leaseId)) break;
        if (held === undefined) continue;
        const content = held.withVersion(leaseVersion(leaseId), type);
        const { clock } = this.#options;
        const now = clock.now();
        const leftMs = facts.expiresAt === undefined ? durationSeconds * 1000 : facts.expiresAt - now;
        // When it was last renewed is not known; that it then got all it asked for is the best guess. Where that is not known
        // either, it is what is left.
        const seconds = durationSeconds > 0 ? durationSeconds : Math.max(0, Math.round(leftMs / 1000));
        const issuedAt = clock.monotonic() + leftMs - seconds * 1000;
        const { renewable } = facts;
        const recalled = { leaseId, durationSeconds: seconds, renewable, issuedAt, content };
        const lease = this.#live(lessee, connection.hold(), recalled);
        // A token that should have ended by now was renewed after its end was written down.
        if (tokenExpiresAt > now) lease.tokenExpiresAt = tokenExpiresAt;
        this.#options.onEvent(key, { type: 'recalled', leaseId });
        return lease;
      }
    }
    return undefined;
  }

  /**
   * Does what is due for a lease.
   * @returns ms until it is to be looked at again; `replace`: new credentials are needed
   * @throws VaultError where Vault could not tell; the lease lives on
   */
  async tend(lease: Lease, pollMs: number, signal: AbortSignal): Promise<number | 'replace'> {
    const { clock } = this.#options;
    const { session } = lease.hold;
    const { tokenId } = lease;
    const unsure = tokenId === undefined && lease.tokenExpiresAt === undefined;
    const everyMs = unsure ? Math.min(pollMs, UNSURE_POLL_MS) : pollMs;
    for (;;) {
      noteTokenEnd(lease);
      const now = clock.monotonic();
      const deadline = tokenId === undefined ? lease.tokenExpiresAt : session.tokenDeadline(tokenId);
      const tokenDeadline = deadline === undefined ? undefined : deadline - clock.now() + now;
      const plan = leasePlan({ ...lease, tokenDeadline }, now, lease.jitter);
      if (plan.action === 'replace') return 'replace';
      if (plan.action === 'renew') {
        if (!(await this.#renew(lease, signal))) return 'replace';
        continue;
      }
      // Half a second early is not early: the poll that is due then would only come again.
      if (!lease.blind && now - lease.checkedAt >= everyMs - 500) {
        if ((await this.#lookUp(lease, signal)) === 'gone') return 'replace';
      }
      const tokenLook = Math.max(
        SHORTEST_TOKEN_LOOK_MS,
        ((lease.tokenExpiresAt ?? Infinity) - clock.now()) * TOKEN_LOOK,
      );
      return Math.max(0, Math.min(plan.at - clock.monotonic(), everyMs, tokenLook));
    }
  }

  /** The lease was replaced by another of the same origin: it is held until its end. */
  replaced(lease: Lease): void {
    this.#letGo(lease, 'replaced');
    lease.content = NO_CONTENT;
  }

  /** Its rule does not use it any more: it is held until somebody ends it, or its time is over. */
  dropped(lease: Lease): void {
    if (lease.state === 'live') this.#letGo(lease, 'dropped');
  }

  /** Whether the rule of a source had a lease of its origin, as far as is written down. */
  hasTrace(key: ResourceKey): boolean {
    for (const _ of this.#options.tracesOf(key)) return true;
    return false;
  }

  /** A lease that is not over yet. */
  find(leaseId: string): Lease | undefined {
    return this.#known.get(leaseId);
  }

  /** All leases of a rule that are not over yet. */
  *of(rule: RuleKey): Iterable<Lease> {
    for (const lease of this.#known.values()) if (lease.rule === rule) yield lease;
  }

  /** Whether another rule lives by it. */
  isLiveFor(leaseId: string, not: RuleKey): boolean {
    const lease = this.#known.get(leaseId);
    return lease?.state === 'live' && lease.rule !== not;
  }

  /** It was ended. */
  ended(leaseId: string): void {
    const lease = this.#known.get(leaseId);
    if (lease === undefined) return;
    if (lease.state !== 'live') {
      this.#over(lease);
      return;
    }
    // Its rule took it up while it was being ended.
    lease.checkedAt = -Infinity;
    this.#options.onDoubt(lease.key);
  }

  /** The rule is gone and leaves its leases to their time. */
  release(rule: RuleKey): void {
    for (const lease of this.of(rule)) {
      if (lease.state === 'live') continue;
      this.#forget(lease);
      lease.hold.release();
    }
  }

  stop(): void {
    for (const timer of this.#ends.values()) timer.cancel();
    this.#ends.clear();
  }

  #letGo(lease: Lease, state: 'replaced' | 'dropped'): void {
    const { clock } = this.#options;
    const left = [...this.of(lease.rule)].filter(({ state: its }) => its === 'replaced' || its === 'dropped');
    for (const oldest of left.slice(0, Math.max(0, left.length - MOST_LEFT + 1))) this.#over(oldest);
    lease.state = state;
    lease.watch[Symbol.dispose]();
    const rest = Math.max(0, lease.expiresAt - clock.monotonic());
    const over = (): void => {
      this.#over(lease);
    };
    this.#ends.set(lease, clock.setTimeout(over, rest, { unref: true }));
  }

  #over(lease: Lease): void {
    this.#forget(lease);
    lease.hold.session.forgetLease(lease.leaseId);
    lease.hold.release();
  }

  #forget(lease: Lease): void {
    this.#ends.get(lease)?.cancel();
    this.#ends.delete(lease);
    if (this.#known.get(lease.leaseId) === lease) this.#known.delete(lease.leaseId);
  }

  /** Takes up a lease that its rule had dropped. */
  #revive(lessee: Lessee, leaseId: string, type: string): Lease | undefined {
    const kept = this.#known.get(leaseId);
    if (kept?.state !== 'dropped' || kept.rule !== lessee.rule) return undefined;
    if (kept.expiresAt <= this.#options.clock.monotonic()) return undefined;
    this.#forget(kept);
    const content = kept.content.withVersion(kept.content.version, type);
    const lease = this.#live(lessee, kept.hold, { ...kept, durationSeconds: kept.fullSeconds, content });
    lease.durationSeconds = kept.durationSeconds;
    lease.expiresAt = kept.expiresAt;
    lease.tokenExpiresAt = kept.tokenExpiresAt;
    // It may have been ended without our doing.
    lease.checkedAt = -Infinity;
    this.#options.onEvent(lessee.key, { type: 'recalled', leaseId });
    return lease;
  }

  #live(
    { key, rule }: Lessee,
    hold: SessionHold,
    facts: Omit<LeaseGrant, 'tokenId'> & { readonly tokenId?: string | undefined; readonly content: Content },
  ): Lease {
    const { clock, random, onDoubt } = this.#options;
    const { leaseId, durationSeconds, renewable, issuedAt, tokenId, content } = facts;
    const lease: Lease = {
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
      watch: hold.session.watchTokens((id) => {
        if (id === tokenId) onDoubt(key);
      }),
      checkedAt: clock.monotonic(),
      blind: false,
    };
    noteTokenEnd(lease);
    this.#known.set(leaseId, lease);
    return lease;
  }

  /** @returns false if it cannot be kept */
  async #renew(lease: Lease, signal: AbortSignal): Promise<boolean> {
    const { clock, onEvent } = this.#options;
    const { leaseId, fullSeconds } = lease;
    const askedAt = clock.monotonic();
    try {
      const { durationSeconds, renewable } = await renewLease(lease.hold.session, leaseId, fullSeconds, signal);
      if (durationSeconds <= 0) return false;
      lease.durationSeconds = durationSeconds;
      lease.issuedAt = askedAt;
      lease.checkedAt = askedAt;
      lease.expiresAt = askedAt + durationSeconds * 1000;
      lease.renewable = renewable;
      onEvent(lease.key, { type: 'renewed', leaseId });
      return true;
    } catch (error) {
      if (!isVaultError(error)) throw error;
      onEvent(lease.key, { type: 'renewFailed', leaseId, httpStatus: error.status });
      if (renewalVerdict(error) === 'replace') return false;
      throw error;
    }
  }

  async #lookUp(lease: Lease, signal: AbortSignal): Promise<'there' | 'gone'> {
    lease.checkedAt = this.#options.clock.monotonic();
    try {
      if ((await lookupLease(lease.hold.session, lease.leaseId, signal)) !== undefined) return 'there';
      // The original finds it out by a renewal, and its users count the refusals.
      const { key, leaseId } = lease;
      this.#options.onEvent(key, { type: 'renewFailed', leaseId, httpStatus: LEASE_GONE_STATUS });
      return 'gone';
    } catch (error) {
      if (!isVaultError(error, 'permissionDenied')) throw error;
      lease.blind = true;
      return 'there';
    }
  }

  /** `undefined`: it is over. */
  async #factsOf(
    leaseId: string,
    seconds: number,
    { session }: VaultConnection,
    signal: AbortSignal,
  ): Promise<Omit<LeaseFacts, 'issuedAt'> | undefined> {
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

/** Brings up to date when the token ends; of one from before a restart nothing more is heard. */
function noteTokenEnd(lease: Lease): void {
  if (lease.tokenId === undefined) return;
  const end = lease.hold.session.tokenEndWithoutUs(lease.tokenId);
  if (end !== undefined && Math.abs(end - (lease.tokenExpiresAt ?? 0)) <= TOKEN_END_TOLERANCE_MS) return;
  lease.tokenExpiresAt = end;
}
