/**
 * Revokes leases: those that a SecretMirror replaced by a lease of another origin, and all leases of a deleted mirror.
 *
 * A replaced lease is recorded in the status of the mirror (`lease-records.ts`). It is revoked when no copy holds its credentials any more,
 * because until then Pods log in with them. Its states:
 *   none ──no copy holds it──▶ revoking ──done──▶ over ──removed from the status──▶ none
 *                               └──failed──▶ waiting ──retry time──▶ revoking
 *
 * The leases of a deleted mirror are revoked when its copies are gone, within a few seconds (`REVOKE_LIMIT_MS`). After that the mirror is
 * removed in any case, and remaining leases expire.
 *   none ──▶ revoking ──done, or time limit──▶ done ──mirror deleted──▶ none
 *
 * The leases of a mirror are those in its status and those that were granted to this process, never those in annotations of copies: a user
 * who can write a copy could put the lease of another mirror there.
 */
import type { Entry } from '../../../copy/book/claim-book.ts';
import type { Engine } from '../../../copy/engine/engine.ts';
import { isEntryKey, parseResourceKey, type ResourceKey, type RuleKey, ruleName } from '../../../copy/model/keys.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { KubeStore } from '../../../copy/cluster/objects/store.ts';
import type { VaultBackend } from '../../../copy/vault/backend.ts';
import { type VaultLocation } from '../../../copy/vault/locations.ts';
import { MIRROR_ANNOTATIONS, type SecretMirror, type SecretMirrorStatus } from '../api.ts';
import type { LeaseStates } from './lease-records.ts';
import { type EffectiveSpec, sourceLocationOf, type SpecOptions } from '../rules/spec.ts';

export interface MirrorLeasesOptions {
  readonly engine: Engine;
  readonly backend: VaultBackend;
  readonly secrets: KubeStore;
  readonly specOptions: SpecOptions;
  /** A lease could not be revoked; it expires. */
  readonly onRevokeFailed: (mirror: string, leaseId: string, error: unknown) => void;
  /** Wall clock, ms. */
  readonly now: () => number;
}

const REVOKE_LIMIT_MS = 3000;
/** Waits before the revocation of a replaced lease is retried, ms. */
const RETRY = { first: 5000, longest: 300_000 };

/** For one mirror. A later mirror of the same name has another uid. */
interface Revocation {
  readonly uid: string;
  done: boolean;
}

interface LeaseRevocation {
  state: 'revoking' | 'waiting' | 'revoked';
  failures: number;
  /** Wall clock, ms. */
  retryAt: number;
}

interface LeasedCopy {
  readonly key: ResourceKey;
  readonly leaseId: string;
  readonly annotations: Observed['annotations'];
}

export class MirrorLeases {
  readonly #options: MirrorLeasesOptions;
  readonly #revocationOfDeleted = new Map<RuleKey, Revocation>();
  readonly #revocationsOfReplaced = new Map<RuleKey, Map<string, LeaseRevocation>>();

  constructor(options: MirrorLeasesOptions) {
    this.#options = options;
  }

  /** The mirror was deleted. */
  remove(rule: RuleKey): void {
    this.#revocationOfDeleted.delete(rule);
    this.#revocationsOfReplaced.delete(rule);
    this.#options.backend.leases.release(rule);
  }

  /** The state of the leases, for the status. */
  states(rule: RuleKey, entries: readonly Entry[]): LeaseStates {
    const { backend } = this.#options;
    return {
      expiresSoon: (leaseId) => backend.leases.find(leaseId)?.state === 'replaced',
      isOver: (leaseId) => this.#revocationsOfReplaced.get(rule)?.get(leaseId)?.state === 'revoked',
      destinationVersion: this.#entryVersion(entries.find(({ claim }) => isEntryKey(claim.target))),
    };
  }

  /** Revokes replaced leases. @returns ms until the next status update, if the leases need one */
  revokeReplaced(
    rule: RuleKey,
    mirror: SecretMirror,
    { vaultLeases = [] }: SecretMirrorStatus,
    entries: readonly Entry[],
  ): number | undefined {
    const replaced = vaultLeases.filter(({ expirationTime }) => expirationTime !== undefined);
    const revocations = this.#revocationsOfReplaced.get(rule) ?? new Map<string, LeaseRevocation>();
    for (const leaseId of revocations.keys()) {
      if (replaced.every(({ leaseID }) => leaseID !== leaseId)) revocations.delete(leaseId);
    }
    if (replaced.length === 0) {
      this.#revocationsOfReplaced.delete(rule);
      return undefined;
    }
    this.#revocationsOfReplaced.set(rule, revocations);
    const { specOptions } = this.#options;
    const now = this.#options.now();
    let next = Infinity;
    for (const { leaseID, vault, expirationTime = '' } of replaced) {
      next = Math.min(next, Date.parse(expirationTime));
      if (this.#isUsed(rule, leaseID, entries)) continue;
      const revocation = revocations.get(leaseID) ?? { state: 'waiting', failures: 0, retryAt: 0 };
      revocations.set(leaseID, revocation);
      if (revocation.state === 'waiting' && revocation.retryAt <= now) {
        void this.#revoke(rule, leaseID, sourceLocationOf(mirror, vault, specOptions), revocation);
      } else if (revocation.state === 'waiting') next = Math.min(next, revocation.retryAt);
    }
    // One second more, so that a lease has expired by then.
    return Math.min(Math.max(0, next - now) + 1000, RETRY.longest);
  }

  /** Revokes all leases of a deleted mirror. @returns whether that is done; if not, its status is touched later */
  revocation(rule: RuleKey, mirror: SecretMirror, spec: EffectiveSpec): boolean {
    const known = this.#revocationOfDeleted.get(rule);
    if (known?.uid === mirror.metadata.uid) return known.done;
    const { engine } = this.#options;
    const leases = this.#leasesToRevoke(rule, mirror, spec);
    if (leases.size === 0) return true;
    const revocation: Revocation = { uid: mirror.metadata.uid, done: false };
    this.#revocationOfDeleted.set(rule, revocation);
    void this.#revokeAll(rule, leases).finally(() => {
      // The entry stays until the mirror is deleted, so that the leases are revoked only once.
      revocation.done = true;
      engine.enqueueStatus(rule);
    });
    return false;
  }

  /** All leases; if the mirror retains its copies, only those that no copy holds. */
  #leasesToRevoke(
    rule: RuleKey,
    mirror: SecretMirror,
    { deletePolicy, sourceLocation }: EffectiveSpec,
  ): Map<string, VaultLocation | undefined> {
    const { backend, specOptions } = this.#options;
    const retain = deletePolicy === 'retain';
    const leases = new Map<string, VaultLocation | undefined>();
    const { vaultSource, vaultLeases = [] } = mirror.status ?? {};
    if (!retain) for (const { leaseId } of backend.leases.of(rule)) leases.set(leaseId, undefined);
    if (!retain && vaultSource?.leaseID !== undefined) leases.set(vaultSource.leaseID, sourceLocation);
    for (const { leaseID, vault, expirationTime } of vaultLeases) {
      if (retain && (expirationTime === undefined || this.#isOnCopies(rule, leaseID))) continue;
      leases.set(leaseID, sourceLocationOf(mirror, vault, specOptions));
    }
    return leases;
  }

  /** Never rejects. */
  async #revokeAll(rule: RuleKey, leases: ReadonlyMap<string, VaultLocation | undefined>): Promise<void> {
    const { backend, onRevokeFailed } = this.#options;
    const revoke = async ([leaseId, location]: [string, VaultLocation | undefined]): Promise<void> => {
      try {
        await backend.revokeLease(rule, leaseId, location, REVOKE_LIMIT_MS);
      } catch (error) {
        onRevokeFailed(ruleName(rule), leaseId, error);
      }
    };
    await Promise.all(Array.from(leases, revoke));
  }

  /** Never rejects. */
  async #revoke(
    rule: RuleKey,
    leaseId: string,
    location: VaultLocation | undefined,
    revocation: LeaseRevocation,
  ): Promise<void> {
    const { backend, engine, now, onRevokeFailed } = this.#options;
    revocation.state = 'revoking';
    try {
      await backend.revokeLease(rule, leaseId, location, REVOKE_LIMIT_MS);
      revocation.state = 'revoked';
    } catch (error) {
      if (revocation.failures === 0) onRevokeFailed(ruleName(rule), leaseId, error);
      revocation.state = 'waiting';
      revocation.retryAt = now() + Math.min(RETRY.first * 2 ** revocation.failures++, RETRY.longest);
    }
    engine.enqueueStatus(rule);
  }

  /** Whether a copy may still hold the credentials of a lease. */
  #isUsed(rule: RuleKey, leaseId: string, entries: readonly Entry[]): boolean {
    if (this.#isOnCopies(rule, leaseId)) return true;
    return entries.some((entry) => {
      const { claim, outcome } = entry;
      if (!isEntryKey(claim.target) || outcome.state === 'conflict') return false;
      return outcome.state !== 'synced' || !this.#holdsPresent(entry);
    });
  }

  #isOnCopies(rule: RuleKey, leaseId: string): boolean {
    for (const copy of this.copies(rule)) if (copy.leaseId === leaseId) return true;
    return false;
  }

  /** The copies of a mirror with dynamic credentials, according to their annotations. */
  *copies(rule: RuleKey): Iterable<LeasedCopy> {
    const { engine, secrets } = this.#options;
    for (const key of engine.claims.ownedBy(rule)) {
      const { namespace, name } = parseResourceKey(key);
      const annotations = secrets.index.get(namespace, name)?.annotations ?? {};
      const leaseId = annotations[MIRROR_ANNOTATIONS.vaultLeaseId];
      if (leaseId !== undefined) yield { key, leaseId, annotations };
    }
  }

  /** Whether an entry in Vault had the present content of the source when it was last written or read. */
  #holdsPresent({ claim: { target, source } }: Entry): boolean {
    const { backend } = this.#options;
    const view = source === undefined || !isEntryKey(source) ? undefined : backend.sources.view(source);
    const written = isEntryKey(target) ? backend.targets.written(target) : undefined;
    if (written === undefined) return false;
    return view === undefined || (view.state === 'present' && view.version === written.sourceVersion);
  }

  #entryVersion(entry: Entry | undefined): string | undefined {
    if (entry?.outcome.state !== 'synced' || !this.#holdsPresent(entry)) return undefined;
    const { target } = entry.claim;
    return isEntryKey(target) ? this.#options.backend.targets.written(target)?.entryVersion : undefined;
  }
}
