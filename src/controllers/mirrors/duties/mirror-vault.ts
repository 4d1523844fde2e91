/**
 * Tells the Vault backend which entries SecretMirrors use, and records, reports and revokes their leases.
 *
 * `MirrorLeases` revokes a lease when the status names another one, and when the mirror is deleted.
 *   waiting ──no copy has its credentials, or the mirror is deleted──▶ revoking ──▶ over
 * Until no copy has the credentials of a replaced lease, Pods log in with them. A lease that another one of the same
 * origin replaced expires soon, and is not revoked. The leases of a deleted mirror are revoked when its copies are gone.
 * Each gets only one attempt (`REVOKE_LIMIT_MS`). If this fails, or if Keyferry is killed before, the lease expires
 * later.
 *
 * A lease to revoke comes from the status or from a grant to this process, never from the annotations of a copy: a user
 * who can write a copy could name the lease of another mirror there.
 */
import { REASONS } from '../../../copy/model/reasons.ts';
import type { Entry } from '../../../copy/book/claim-book.ts';
import type { Engine } from '../../../copy/engine/engine.ts';
import {
  type EntryKey,
  isEntryKey,
  parseResourceKey,
  type ResourceKey,
  type RuleKey,
  ruleName,
} from '../../../copy/model/keys.ts';
import { SECRET } from '../../../copy/model/kind.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { VaultTrouble } from '../../../copy/vault/access/access.ts';
import type { LeaseObserver, VaultBackend } from '../../../copy/vault/backend.ts';
import { vaultLeaseOrigin, type VaultLocation, vaultSourceKey, type VaultUse } from '../../../copy/vault/locations.ts';
import type { LeaseEvent } from '../../../copy/vault/leases/lease.ts';
import type { LeaseRecord } from '../../../copy/vault/leases/leases.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import type { ControllerContext } from '../../common/context.ts';
import type { RuleEvent } from '../../../copy/engine/controller.ts';
import { MIRROR_ANNOTATIONS, SECRET_MIRROR, type SecretMirror } from '../api.ts';
import type { MirrorMetrics } from '../metrics.ts';
import { type LeaseState, type LeaseStatus, recordOf } from '../rules/lease-records.ts';
import type { MirrorStore } from '../rules/mirror-store.ts';
import { CHOICE_ANNOTATION, LEASE_ORIGIN_ANNOTATION } from '../shape.ts';
import { type EffectiveSpec, sourceLocationOf, type SpecOptions } from '../rules/spec.ts';
import { entryAt, sourceEntryAt } from '../rules/vault-spec.ts';

export interface MirrorVaultParts {
  readonly mirrors: MirrorStore;
  readonly specOptions: SpecOptions;
  readonly metrics: MirrorMetrics;
}

type LeaseContext = Pick<ControllerContext, 'engine' | 'cluster' | 'vault' | 'log'>;

const REVOKE_LIMIT_MS = 3000;
/** Most replaced leases of one mirror that are remembered. A user may change the path any number of times. */
const MOST_REPLACED = 10;

interface LeaseRevocation {
  state: 'waiting' | 'revoking' | 'over';
  /** The login that granted the lease; `undefined`: only a session that is still open can revoke it. */
  readonly location: VaultLocation | undefined;
}

export class MirrorLeases {
  readonly #context: LeaseContext;
  readonly #specOptions: SpecOptions;
  /** The revocations, by mirror, then by lease id. Until the mirror is gone, none is forgotten: so none is repeated. */
  readonly #revocations = new Map<RuleKey, Map<string, LeaseRevocation>>();

  constructor(context: LeaseContext, specOptions: SpecOptions) {
    this.#context = context;
    this.#specOptions = specOptions;
  }

  /** Forgets the leases of a mirror. To be called when the mirror is gone. */
  remove(rule: RuleKey): void {
    this.#revocations.delete(rule);
    this.#context.vault.leases.release(rule);
  }

  /** What is known of a mirror's lease. @param source the key of its source; `undefined`: it has none */
  state(source: ResourceKey | undefined, entries: readonly Entry[]): LeaseState {
    return {
      lease: source !== undefined && isEntryKey(source) ? this.#context.vault.sources.lease(source) : undefined,
      destinationVersion: this.#entryVersion(entries.find(({ target }) => isEntryKey(target))),
    };
  }

  /** Called when the server has the status `after`. Copies then get the credentials of the lease that it names. */
  recorded(rule: RuleKey, mirror: SecretMirror, spec: EffectiveSpec, before: LeaseStatus, after: LeaseStatus): void {
    const { leases, sources } = this.#context.vault;
    const [old, leaseId] = [before.vaultSource?.leaseID, after.vaultSource?.leaseID];
    if (old !== undefined && old !== leaseId && leases.find(old)?.state !== 'replaced') {
      const revocations = this.#revocationsOf(rule);
      revocations.set(old, { state: 'waiting', location: this.#locationOf(mirror, spec, before) });
      if (revocations.size > MOST_REPLACED) {
        const [first] = revocations.keys();
        const ended = [...revocations].find(([, { state }]) => state === 'over')?.[0];
        revocations.delete(ended ?? first ?? old);
      }
    }
    if (leaseId === undefined) return;
    // The mirror may have returned to a lease whose revocation failed.
    this.#revocations.get(rule)?.delete(leaseId);
    if (spec.sourceLocation !== undefined) sources.leaseRecorded(vaultSourceKey(spec.sourceLocation, rule), leaseId);
  }

  /**
   * Revokes replaced leases that no copy uses.
   * @param entries the claims of the present version. While the mirror is refused or fails, they do not show what the
   *   entry in Vault holds, so call this later
   */
  revokeReplaced(rule: RuleKey, { destinationType }: EffectiveSpec, entries: readonly Entry[]): void {
    // An entry has no mark. Without a claim on it, nothing shows which credentials it holds.
    if (destinationType === 'vault' && !entries.some(({ target }) => isEntryKey(target))) return;
    for (const [leaseId, revocation] of this.#revocations.get(rule) ?? [])
      if (revocation.state === 'waiting' && !this.#isUsed(rule, leaseId, entries))
        void this.#revoke(rule, leaseId, revocation);
  }

  /** Revokes the leases of a deleted mirror. @returns whether this is done; if not, its end enqueues the status */
  revocation(rule: RuleKey, mirror: SecretMirror, spec: EffectiveSpec): boolean {
    const revocations = this.#revocationsOf(rule);
    for (const [leaseId, location] of this.#leasesToRevoke(rule, mirror, spec)) {
      const revocation = getOrCreate(revocations, leaseId, (): LeaseRevocation => ({ state: 'waiting', location }));
      if (revocation.state === 'waiting') void this.#revoke(rule, leaseId, revocation);
    }
    return !this.#isRevoking(rule);
  }

  #revocationsOf(rule: RuleKey): Map<string, LeaseRevocation> {
    return getOrCreate(this.#revocations, rule, () => new Map());
  }

  #isRevoking(rule: RuleKey): boolean {
    return [...(this.#revocations.get(rule)?.values() ?? [])].some(({ state }) => state === 'revoking');
  }

  /**
   * All leases of a deleted mirror. If it retains its copies: only replaced leases whose credentials no copy has. An
   * entry in Vault is always retained, and may still hold those of any lease.
   */
  #leasesToRevoke(rule: RuleKey, mirror: SecretMirror, spec: EffectiveSpec): Map<string, VaultLocation | undefined> {
    const retain = spec.deletePolicy === 'retain';
    if (spec.destinationType === 'vault') return new Map();
    const leases = new Map<string, VaultLocation | undefined>();
    const { vaultSource } = mirror.status ?? {};
    if (!retain) for (const { leaseId } of this.#context.vault.leases.of(rule)) leases.set(leaseId, undefined);
    if (!retain && vaultSource?.leaseID !== undefined)
      leases.set(vaultSource.leaseID, this.#locationOf(mirror, spec, mirror.status));
    for (const [leaseId, { location }] of this.#revocations.get(rule) ?? [])
      if (!retain || !this.#isOnCopies(rule, leaseId)) leases.set(leaseId, location);
    return leases;
  }

  /** The location with which the lease of a status was granted. The original did not record it. */
  #locationOf(
    mirror: SecretMirror,
    { sourceLocation }: EffectiveSpec,
    status: LeaseStatus | undefined,
  ): VaultLocation | undefined {
    const record = recordOf(status);
    return record === undefined ? sourceLocation : sourceLocationOf(mirror, record.vault, this.#specOptions);
  }

  /** Revokes a lease, records the result, and enqueues the status of the mirror. Never rejects. */
  async #revoke(rule: RuleKey, leaseId: string, revocation: LeaseRevocation): Promise<void> {
    const { vault, engine, log } = this.#context;
    revocation.state = 'revoking';
    try {
      await vault.revokeLease(rule, leaseId, revocation.location, REVOKE_LIMIT_MS);
    } catch (error) {
      const failed = 'cannot revoke a Vault lease, it stays valid until it expires';
      log.warn(failed, { mirror: ruleName(rule), lease: leaseId, error });
    }
    revocation.state = 'over';
    if (!this.#isRevoking(rule)) engine.enqueueStatus(rule);
  }

  /** Whether a copy may still have the credentials of a lease. */
  #isUsed(rule: RuleKey, leaseId: string, entries: readonly Entry[]): boolean {
    if (this.#isOnCopies(rule, leaseId)) return true;
    return entries.some((entry) => {
      const { target, outcome } = entry;
      if (!isEntryKey(target) || outcome.state === 'conflict') return false;
      return outcome.state !== 'synced' || !this.#holdsPresent(entry);
    });
  }

  #isOnCopies(rule: RuleKey, leaseId: string): boolean {
    return [...this.copies(rule)].some((copy) => copy.leaseId === leaseId);
  }

  /** The copies of a mirror that have dynamic credentials, according to their annotations. */
  *copies(
    rule: RuleKey,
  ): Iterable<{ readonly key: ResourceKey; leaseId: string; annotations: Observed['annotations'] }> {
    const { engine, cluster } = this.#context;
    const { index } = cluster.store(SECRET);
    for (const key of engine.claims.ownedBy(rule)) {
      const { kind, namespace, name } = parseResourceKey(key);
      const { annotations = {} } = (kind === SECRET.kind && index.get(namespace, name)) || {};
      const leaseId = annotations[MIRROR_ANNOTATIONS.vaultLeaseId];
      if (leaseId !== undefined) yield { key, leaseId, annotations };
    }
  }

  /** Whether the entry in Vault had the present content of the source when Keyferry last wrote or read it. */
  #holdsPresent({ target, claim: { source } }: Entry): boolean {
    const { sources, targets } = this.#context.vault;
    const view = source === undefined || !isEntryKey(source) ? undefined : sources.view(source);
    const written = isEntryKey(target) ? targets.written(target) : undefined;
    if (written === undefined) return false;
    return view === undefined || (view.state === 'present' && view.version === written.sourceVersion);
  }

  #entryVersion(entry: Entry | undefined): string | undefined {
    // If the mirror chooses keys, the entry lacks a part of the credentials, and cannot restore the lease.
    const isWhole = entry !== undefined && entry.claim.selection === undefined;
    if (!isWhole || entry.outcome.state !== 'synced' || !this.#holdsPresent(entry)) return undefined;
    const { target } = entry;
    return isEntryKey(target) ? this.#context.vault.targets.written(target)?.entryVersion : undefined;
  }
}

export class MirrorVault implements LeaseObserver {
  readonly #parts: MirrorVaultParts;
  readonly #recordEvent: ControllerContext['recordEvent'];
  readonly #engine: Engine;
  readonly #backend: VaultBackend;
  readonly leases: MirrorLeases;

  constructor(context: ControllerContext, parts: MirrorVaultParts) {
    this.#parts = parts;
    this.#engine = context.engine;
    this.#recordEvent = context.recordEvent;
    this.#backend = context.vault;
    this.leases = new MirrorLeases(context, parts.specOptions);
    context.vault.setLeaseObserver(this);
  }

  trouble(source: ResourceKey): VaultTrouble | undefined {
    return isEntryKey(source) ? this.#backend.sources.trouble(source) : undefined;
  }

  /** Tells the Vault backend which entries a mirror uses; no `spec`: none any more. */
  use(rule: RuleKey, spec: EffectiveSpec | undefined): void {
    if (spec === undefined) {
      this.#backend.locations.set(rule, []);
      if (this.#parts.mirrors.get(rule) === undefined) this.leases.remove(rule);
      return;
    }
    const { sourceLocation, destinationLocation, pollPeriodSeconds: pollSeconds } = spec;
    const uses: VaultUse[] = [];
    const use = (key: EntryKey | undefined, location: VaultLocation | undefined): void => {
      if (key !== undefined && location !== undefined) uses.push({ key, location, pollSeconds });
    };
    use(sourceEntryAt(sourceLocation, rule), sourceLocation);
    use(entryAt(destinationLocation), destinationLocation);
    this.#backend.locations.set(rule, uses);
  }

  leaseRecordOf(key: EntryKey): LeaseRecord | undefined {
    const { mirrors, specOptions } = this.#parts;
    const { locations } = this.#backend;
    const location = locations.get(key);
    const [rule] = locations.users(key);
    const mirror = rule === undefined ? undefined : mirrors.get(rule);
    const { vaultSource } = mirror?.status ?? {};
    const leaseId = vaultSource?.leaseID;
    if (location === undefined || rule === undefined || mirror === undefined || leaseId === undefined) return undefined;
    const record = recordOf(mirror.status);
    const recorded = record && sourceLocationOf(mirror, record.vault, specOptions);
    const copies = this.#copiesOf(rule, location, leaseId);
    const origin = vaultLeaseOrigin(location);
    // The original recorded no `vault` block: the lease belongs to this origin if a copy with this origin names it.
    const belongs =
      recorded === undefined ? record === undefined && copies.length > 0 : origin === vaultLeaseOrigin(recorded);
    if (!belongs) return undefined;
    const tokenEnd = Date.parse(vaultSource?.tokenExpirationTime ?? '');
    const entryVersion = record?.destinationVersion;
    const entries = Array.from(this.#engine.book.of(rule), ({ target }) => target).filter(isEntryKey);
    return {
      leaseId,
      durationSeconds: vaultSource?.leaseDuration ?? 0,
      tokenExpiresAt: Number.isNaN(tokenEnd) ? undefined : tokenEnd,
      copies: entryVersion === undefined ? copies : [...copies, ...entries],
      entryVersion,
    };
  }

  /** The copies of a mirror that name a lease of this origin. */
  #copiesOf(rule: RuleKey, location: VaultLocation, lease: string): ResourceKey[] {
    const origin = vaultLeaseOrigin(location);
    const found: ResourceKey[] = [];
    for (const { key, leaseId, annotations } of this.leases.copies(rule)) {
      // Copies that the original made have only the path, not the origin. Copies of chosen keys lack some credentials.
      const { [LEASE_ORIGIN_ANNOTATION]: marked, [MIRROR_ANNOTATIONS.vaultPath]: path } = annotations;
      const isOfOther = leaseId !== lease || (marked === undefined ? path !== location.path : marked !== origin);
      if (!isOfOther && !(CHOICE_ANNOTATION in annotations)) found.push(key);
    }
    return found;
  }

  onLease(key: EntryKey, event: LeaseEvent): void {
    const { mirrors, metrics } = this.#parts;
    const { locations } = this.#backend;
    const addr = locations.get(key)?.server.addr ?? '';
    for (const rule of locations.users(key)) {
      const mirror = mirrors.get(rule);
      if (mirror === undefined) continue;
      const name = ruleName(rule);
      const { name: of, namespace = '', uid } = mirror.metadata;
      const { apiVersion, kind } = SECRET_MIRROR;
      const record = (told: Omit<RuleEvent, 'type'>): void =>
        this.#recordEvent({
          subject: { apiVersion, kind, namespace, name: of, uid },
          type: 'Normal',
          ...told,
        });
      if (event.type === 'granted') {
        const message = `Fetched new credentials under the lease ${event.leaseId}`;
        record({ reason: 'VaultNewCreds', message });
      } else if (event.type === 'renewed') {
        record({ reason: 'VaultLeaseRenew', message: REASONS.VaultLeaseRenew.says });
        metrics.leaseRenewed(name, addr);
      } else if (event.type === 'renewFailed') {
        metrics.leaseRenewFailed(name, addr, event.httpStatus);
      }
      // Copies get new credentials only when the status names their lease, so this update does not wait for the copies.
      this.#engine.enqueueStatus(rule, event.type === 'granted' ? 0 : undefined);
    }
  }
}
