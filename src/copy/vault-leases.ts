/**
 * The leases by which dynamic credentials live: renewed ahead of their end, replaced before they die.
 *
 *   granted ─┐                      ┌─ renewed (two thirds of its life are over)
 *            ├──▶ live ◀────────────┘
 *   recalled ┘      ├──▶ due: `max_ttl` or the end of its token is near; Vault does not know it any more
 *                   └──▶ dropped: nobody uses it here; it lives on until it is revoked or its time is over
 *
 * Credentials cannot be read twice, so their content stays with the lease. After a restart it is taken from a copy that is marked with
 * the lease: only where none is left are new credentials asked for. A lease holds the session that made it, because it
 * dies with the token of that session; a replaced one for as long as it lives, since its users may not have changed yet.
 *
 * The times of a lease are on the monotonic clock: a wall clock that is set back must not make us take it for alive.
 */
import type { Clock, Timer } from '../runtime/clock.ts';
import { isVaultError } from '../vault/errors.ts';
import type { LeaseGrant } from '../vault/kv-answers.ts';
import { leasePlan } from '../vault/lease-plan.ts';
import { type LeaseFacts, lookupLease, renewalVerdict, renewLease } from '../vault/leases.ts';
import type { SessionHold } from '../vault/sessions.ts';
import type { Content } from './content.ts';
import type { HolderKey } from './keys.ts';
import type { VaultDoor } from './vault-access.ts';

/** What is remembered of a lease elsewhere: in a rule's status, and on copies. */
export interface LeaseTrace {
  readonly leaseId: string;
  /** Of the last grant or renewal; 0: not known. */
  readonly durationSeconds: number;
  /** When the token that it hangs on was to end, ms since 1970, where that is known. */
  readonly tokenExpiresAt: number | undefined;
  /** Copies that hold its credentials, as far as can be seen without reading them. */
  readonly copies: readonly HolderKey[];
}

export type LeaseEvent =
  | { readonly type: 'granted' | 'renewed' | 'recalled'; readonly leaseId: string }
  | { readonly type: 'renewFailed'; readonly leaseId: string; readonly httpStatus: number | undefined };

export interface VaultLeasesOptions {
  readonly clock: Clock;
  /** 0 ≤ r < 1. */
  readonly random: () => number;
  readonly tracesOf: (key: HolderKey) => Iterable<LeaseTrace>;
  /** The credentials that a copy holds, if nobody but us has written them; as content of version `version`. */
  readonly readCopy: (copy: HolderKey, version: string, signal: AbortSignal) => Promise<Content | undefined>;
  readonly onEvent: (key: HolderKey, event: LeaseEvent) => void;
  /** A lease should be looked at again. */
  readonly onDoubt: (key: HolderKey) => void;
}

export interface Lease {
  readonly key: HolderKey;
  readonly leaseId: string;
  readonly content: Content;
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

/** What Vault answers about a lease that it does not know. */
const LEASE_GONE_STATUS = 400;

export const leaseVersion = (leaseId: string): string => `lease ${leaseId}`;

export class VaultLeases {
  readonly #options: VaultLeasesOptions;
  readonly #ending = new Set<Timer>();

  constructor(options: VaultLeasesOptions) {
    this.#options = options;
  }

  /** New credentials were read. */
  granted(key: HolderKey, door: VaultDoor, grant: LeaseGrant, content: Content): Lease {
    const { clock } = this.#options;
    const { leaseId, durationSeconds, renewable, tokenId } = grant;
    const issuedAt = clock.monotonic() - (clock.now() - grant.issuedAt);
    const lease = this.#live(key, door, { leaseId, durationSeconds, renewable, issuedAt, tokenId, content });
    this.#options.onEvent(key, { type: 'granted', leaseId });
    return lease;
  }

  /**
   * The lease that was held before a restart, if it lives and a copy still has its credentials.
   * @throws VaultError, what the API server answers
   */
  async recall(key: HolderKey, door: VaultDoor, signal: AbortSignal): Promise<Lease | undefined> {
    for (const { leaseId, durationSeconds, tokenExpiresAt = 0, copies } of this.#options.tracesOf(key)) {
      if (copies.length === 0) continue;
      const facts = await this.#factsOf(leaseId, durationSeconds, door, signal);
      if (facts === undefined) continue;
      for (const copy of copies) {
        const content = await this.#options.readCopy(copy, leaseVersion(leaseId), signal);
        if (content === undefined) continue;
        const { clock } = this.#options;
        const now = clock.now();
        const leftMs = facts.expiresAt === undefined ? durationSeconds * 1000 : facts.expiresAt - now;
        // When it was last renewed is not known; that it then got all it asked for is the best guess. Where that is not known
        // either, it is what is left.
        const seconds = durationSeconds > 0 ? durationSeconds : Math.max(0, Math.round(leftMs / 1000));
        const issuedAt = clock.monotonic() + leftMs - seconds * 1000;
        const { renewable } = facts;
        const lease = this.#live(key, door, { leaseId, durationSeconds: seconds, renewable, issuedAt, content });
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

  /** The lease was replaced: it is held until its end. */
  replaced(lease: Lease): void {
    lease.watch[Symbol.dispose]();
    const rest = Math.max(0, lease.expiresAt - this.#options.clock.monotonic());
    const timer = this.#options.clock.setTimeout(
      () => {
        this.#ending.delete(timer);
        lease.hold.session.forgetLease(lease.leaseId);
        lease.hold.release();
      },
      rest,
      { unref: true },
    );
    this.#ending.add(timer);
  }

  /** Nobody uses it here any more. */
  dropped(lease: Lease): void {
    lease.watch[Symbol.dispose]();
    lease.hold.release();
  }

  stop(): void {
    for (const timer of this.#ending) timer.cancel();
    this.#ending.clear();
  }

  #live(
    key: HolderKey,
    door: VaultDoor,
    facts: Omit<LeaseGrant, 'tokenId'> & { readonly tokenId?: string; readonly content: Content },
  ): Lease {
    const { clock, random, onDoubt } = this.#options;
    const { leaseId, durationSeconds, renewable, issuedAt, tokenId, content } = facts;
    const hold = door.hold();
    const lease: Lease = {
      key,
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
    { session }: VaultDoor,
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
