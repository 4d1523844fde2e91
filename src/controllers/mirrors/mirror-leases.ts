/**
 * The ends of leases: of those that a SecretMirror replaced by one of another origin, and of all of a mirror that goes.
 *
 * A replaced lease stands in the mirror's status (`lease-records.ts`). It is revoked when no copy holds its credentials any more: until then
 * Pods log in with them. States of it, here:
 *   none ──no copy holds it──▶ asking ──answered──▶ over ──out of the status──▶ none
 *                               └──failed──▶ waiting ──its time──▶ asking
 *
 * The leases of a mirror that goes are asked to end when its copies are gone, for a few seconds at most (`REVOKE_LIMIT_MS`): then the
 * mirror goes whatever became of them, and they end with their time.
 *   none ──▶ asking ──answered, or given up──▶ done ──the mirror is gone──▶ none
 *
 * Which leases a mirror has is said by its status and by what this process was granted, never by the annotations of copies: whoever may
 * write a copy could name somebody else's lease there.
 */
import type { Entry } from '../../copy/plan/claim-book.ts';
import type { Engine } from '../../copy/engine.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { parseResourceKey } from '../../copy/model/keys.ts';
import type { KubeStore } from '../../copy/cluster/store.ts';
import type { VaultBackend } from '../../copy/vault/backend.ts';
import { isVaultKey, type VaultLocation } from '../../copy/vault/locations.ts';
import { MIRROR_ANNOTATIONS, type SecretMirror, type SecretMirrorStatus, type VaultBlock } from './api.ts';
import type { LeaseNews } from './lease-records.ts';
import { mirrorName } from './mirror-store.ts';
import type { EffectiveSpec } from './spec.ts';

export interface MirrorLeasesOptions {
  readonly engine: Engine;
  readonly backend: VaultBackend;
  readonly secrets: KubeStore;
  /** Where a `vault` block of a mirror is; `undefined` if it may not be used. */
  readonly locationOf: (mirror: SecretMirror, block: VaultBlock) => VaultLocation | undefined;
  /** A lease could not be ended; it ends with its time. */
  readonly onLeftLease: (mirror: string, leaseId: string, error: unknown) => void;
  /** Wall clock, ms. */
  readonly now: () => number;
}

const REVOKE_LIMIT_MS = 3000;
/** Waits before a replaced lease is tried again, ms. */
const RETRY = { first: 5000, longest: 300_000 };

/** Of one mirror; one that comes under its name has its own. */
interface Revocation {
  readonly uid: string;
  done: boolean;
}

interface Ending {
  state: 'asking' | 'waiting' | 'over';
  failures: number;
  /** Wall clock, ms. */
  retryAt: number;
}

export class MirrorLeases {
  readonly #options: MirrorLeasesOptions;
  readonly #revocations = new Map<RuleKey, Revocation>();
  readonly #endings = new Map<RuleKey, Map<string, Ending>>();

  constructor(options: MirrorLeasesOptions) {
    this.#options = options;
  }

  /** The mirror is gone. */
  forget(rule: RuleKey): void {
    this.#revocations.delete(rule);
    this.#endings.delete(rule);
    this.#options.backend.leases.release(rule);
  }

  /** For the fold of the status. */
  news(rule: RuleKey, entries: readonly Entry[]): LeaseNews {
    const { backend } = this.#options;
    return {
      endsByItself: (leaseId) => backend.leases.find(leaseId)?.state === 'replaced',
      isOver: (leaseId) => this.#endings.get(rule)?.get(leaseId)?.state === 'over',
      destinationVersion: this.#entryVersion(entries.find(({ claim }) => isVaultKey(claim.target))),
    };
  }

  /** @returns ms after which the mirror is to be reported on again; `undefined`: it need not be for its leases */
  endReplaced(
    rule: RuleKey,
    mirror: SecretMirror,
    { vaultLeases = [] }: SecretMirrorStatus,
    entries: readonly Entry[],
  ): number | undefined {
    const replaced = vaultLeases.filter(({ expirationTime }) => expirationTime !== undefined);
    const endings = this.#endings.get(rule) ?? new Map<string, Ending>();
    for (const leaseId of endings.keys()) {
      if (replaced.every(({ leaseID }) => leaseID !== leaseId)) endings.delete(leaseId);
    }
    if (replaced.length === 0) {
      this.#endings.delete(rule);
      return undefined;
    }
    this.#endings.set(rule, endings);
    const { locationOf } = this.#options;
    const now = this.#options.now();
    let next = Infinity;
    for (const { leaseID, vault, expirationTime = '' } of replaced) {
      next = Math.min(next, Date.parse(expirationTime));
      if (this.#isUsed(rule, leaseID, entries)) continue;
      const ending = endings.get(leaseID) ?? { state: 'waiting', failures: 0, retryAt: 0 };
      endings.set(leaseID, ending);
      if (ending.state === 'waiting' && ending.retryAt <= now) {
        void this.#end(rule, leaseID, locationOf(mirror, vault), ending);
      } else if (ending.state === 'waiting') next = Math.min(next, ending.retryAt);
    }
    // A second later than it is due, so that it is over by then.
    return Math.min(Math.max(0, next - now) + 1000, RETRY.longest);
  }

  /** @returns whether the mirror may go; if not, its status is touched when it may */
  revocation(rule: RuleKey, mirror: SecretMirror, spec: EffectiveSpec): boolean {
    const known = this.#revocations.get(rule);
    if (known?.uid === mirror.metadata.uid) return known.done;
    const { engine } = this.#options;
    const leases = this.#leasesToEnd(rule, mirror, spec);
    if (leases.size === 0) return true;
    const revocation: Revocation = { uid: mirror.metadata.uid, done: false };
    this.#revocations.set(rule, revocation);
    void this.#endAll(rule, leases).finally(() => {
      // Kept for as long as the mirror is there, which somebody may have let go meanwhile.
      revocation.done = true;
      engine.touchStatus(rule);
    });
    return false;
  }

  /** Where a mirror retains its copies only those that no copy has. */
  #leasesToEnd(
    rule: RuleKey,
    mirror: SecretMirror,
    { deletePolicy, sourceLocation }: EffectiveSpec,
  ): Map<string, VaultLocation | undefined> {
    const { backend, locationOf } = this.#options;
    const retain = deletePolicy === 'retain';
    const ends = new Map<string, VaultLocation | undefined>();
    const { vaultSource, vaultLeases = [] } = mirror.status ?? {};
    if (!retain) for (const { leaseId } of backend.leases.of(rule)) ends.set(leaseId, undefined);
    if (!retain && vaultSource?.leaseID !== undefined) ends.set(vaultSource.leaseID, sourceLocation);
    for (const { leaseID, vault, expirationTime } of vaultLeases) {
      if (retain && (expirationTime === undefined || this.#isOnCopies(rule, leaseID))) continue;
      ends.set(leaseID, locationOf(mirror, vault));
    }
    return ends;
  }

  /** Never rejects. */
  async #endAll(rule: RuleKey, leases: ReadonlyMap<string, VaultLocation | undefined>): Promise<void> {
    const { backend, onLeftLease } = this.#options;
    const end = async ([leaseId, location]: [string, VaultLocation | undefined]): Promise<void> => {
      try {
        await backend.endLease(rule, leaseId, location, REVOKE_LIMIT_MS);
      } catch (error) {
        onLeftLease(mirrorName(rule), leaseId, error);
      }
    };
    await Promise.all(Array.from(leases, end));
  }

  /** Never rejects. */
  async #end(rule: RuleKey, leaseId: string, location: VaultLocation | undefined, ending: Ending): Promise<void> {
    const { backend, engine, now, onLeftLease } = this.#options;
    ending.state = 'asking';
    try {
      await backend.endLease(rule, leaseId, location, REVOKE_LIMIT_MS);
      ending.state = 'over';
    } catch (error) {
      if (ending.failures === 0) onLeftLease(mirrorName(rule), leaseId, error);
      ending.state = 'waiting';
      ending.retryAt = now() + Math.min(RETRY.first * 2 ** ending.failures++, RETRY.longest);
    }
    engine.touchStatus(rule);
  }

  /** Whether a copy may still hold the credentials of a replaced lease. */
  #isUsed(rule: RuleKey, leaseId: string, entries: readonly Entry[]): boolean {
    if (this.#isOnCopies(rule, leaseId)) return true;
    return entries.some((entry) => {
      const { claim, outcome } = entry;
      if (!isVaultKey(claim.target) || outcome.state === 'conflict') return false;
      return outcome.state !== 'synced' || !this.#holdsPresent(entry);
    });
  }

  #isOnCopies(rule: RuleKey, leaseId: string): boolean {
    const { engine, secrets } = this.#options;
    for (const copy of engine.ownedBy(rule)) {
      const { namespace, name } = parseResourceKey(copy);
      if (secrets.index.get(namespace, name)?.annotations[MIRROR_ANNOTATIONS.vaultLeaseId] === leaseId) return true;
    }
    return false;
  }

  /** Whether an entry in Vault was last seen to hold what the source has now. */
  #holdsPresent({ claim: { target, source } }: Entry): boolean {
    const { backend } = this.#options;
    const view = source === undefined || !isVaultKey(source) ? undefined : backend.sources.view(source);
    const written = backend.targets.written(target);
    if (written === undefined) return false;
    return view === undefined || (view.state === 'present' && view.version === written.sourceVersion);
  }

  #entryVersion(entry: Entry | undefined): string | undefined {
    if (entry?.outcome.state !== 'synced' || !this.#holdsPresent(entry)) return undefined;
    return this.#options.backend.targets.written(entry.claim.target)?.entryVersion;
  }
}
