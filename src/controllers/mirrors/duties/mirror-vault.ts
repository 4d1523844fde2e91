/**
 * Tells the Vault backend which entries SecretMirrors use, and records, reports and revokes their leases.
 *
 * `MirrorLeases` revokes the leases of a deleted mirror when its copies are gone, and the last lease that the status named
 * before the present one when no copy has its credentials: until then, Pods log in with them. A lease that another one of
 * the same origin replaced expires soon, and is not revoked. Each gets only one attempt (`REVOKE_LIMIT_MS`). If this
 * fails, if Keyferry is killed before, or if the status names yet another lease before, the lease ends by its TTL.
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

interface PreviousLease {
  readonly leaseId: string;
  /** The login that granted the lease; `undefined`: only a session that is still open can revoke it. */
  readonly location: VaultLocation | undefined;
}

export class MirrorLeases {
  readonly #context: LeaseContext;
  readonly #specOptions: SpecOptions;
  /** The last lease that the status of a mirror named before the present one, until its revocation begins. */
  readonly #previous = new Map<RuleKey, PreviousLease>();
  /** The deleted mirrors whose leases are being revoked, and whether this is over. */
  readonly #deleted = new Map<RuleKey, { readonly uid: string; isOver: boolean }>();

  constructor(context: LeaseContext, specOptions: SpecOptions) {
    this.#context = context;
    this.#specOptions = specOptions;
  }

  /** Forgets the leases of a mirror. To be called when the mirror is gone. */
  remove(rule: RuleKey): void {
    this.#previous.delete(rule);
    this.#deleted.delete(rule);
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
    if (old !== undefined && old !== leaseId && !leases.isReplaced(rule, old))
      this.#previous.set(rule, { leaseId: old, location: this.#locationOf(mirror, spec, before) });
    if (leaseId === undefined) return;
    // Somebody may have written an earlier status again, and so the mirror has resumed the lease.
    if (this.#previous.get(rule)?.leaseId === leaseId) this.#previous.delete(rule);
    if (spec.sourceLocation !== undefined) sources.leaseRecorded(vaultSourceKey(spec.sourceLocation, rule), leaseId);
  }

  /**
   * Revokes the previous lease if no copy has its credentials.
   * @param entries the claims of the present version. While the mirror is refused or fails, they do not show what the
   *   entry in Vault holds, so call this later
   */
  revokePrevious(rule: RuleKey, { destinationType }: EffectiveSpec, entries: readonly Entry[]): void {
    const previous = this.#previous.get(rule);
    if (previous === undefined || this.#isOnCopies(rule, previous.leaseId)) return;
    // An entry in Vault has no mark. Only what was last written or read shows which credentials it holds.
    if (destinationType === 'vault' && !entries.some((entry) => this.#holdsPresent(entry))) return;
    this.#previous.delete(rule);
    void this.#revoke(rule, previous);
  }

  /** Revokes the leases of a deleted mirror. @returns whether this is done; if not, its end enqueues the status */
  revocation(rule: RuleKey, mirror: SecretMirror, spec: EffectiveSpec): boolean {
    const { uid } = mirror.metadata;
    const begun = this.#deleted.get(rule);
    if (begun?.uid === uid) return begun.isOver;
    const leases = this.#leasesToRevoke(rule, mirror, spec);
    if (leases.size === 0) return true;
    const deleted = { uid, isOver: false };
    this.#deleted.set(rule, deleted);
    void this.#end(rule, deleted, leases);
    return false;
  }

  /**
   * The leases of a deleted mirror. If it retains its copies: only the previous one, if no copy has its credentials. An
   * entry in Vault is always retained, and may still hold those of any lease.
   */
  #leasesToRevoke(rule: RuleKey, mirror: SecretMirror, spec: EffectiveSpec): Map<string, VaultLocation | undefined> {
    const leases = new Map<string, VaultLocation | undefined>();
    if (spec.destinationType === 'vault') return leases;
    const retain = spec.deletePolicy === 'retain';
    const { leaseID } = mirror.status?.vaultSource ?? {};
    if (!retain) {
      for (const leaseId of this.#context.vault.leases.of(rule)) leases.set(leaseId, undefined);
      if (leaseID !== undefined) leases.set(leaseID, this.#locationOf(mirror, spec, mirror.status));
    }
    const previous = this.#previous.get(rule);
    if (previous !== undefined && !(retain && this.#isOnCopies(rule, previous.leaseId)))
      leases.set(previous.leaseId, previous.location);
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

  async #end(
    rule: RuleKey,
    deleted: { isOver: boolean },
    leases: Map<string, VaultLocation | undefined>,
  ): Promise<void> {
    const revocations = Array.from(leases, ([leaseId, location]) => this.#revoke(rule, { leaseId, location }));
    await Promise.all(revocations);
    deleted.isOver = true;
    this.#context.engine.enqueueStatus(rule);
  }

  /** Never rejects: a lease that cannot be revoked expires. */
  async #revoke(rule: RuleKey, { leaseId, location }: PreviousLease): Promise<void> {
    const { vault, log } = this.#context;
    try {
      await vault.revokeLease(rule, leaseId, location, REVOKE_LIMIT_MS);
    } catch (error) {
      const failed = 'cannot revoke a Vault lease, it stays valid until it expires';
      log.warn(failed, { mirror: ruleName(rule), lease: leaseId, error });
    }
  }

  /** Whether a copy has the credentials of a lease. */
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
  #holdsPresent({ target, outcome, claim: { source } }: Entry): boolean {
    const { sources, targets } = this.#context.vault;
    const written = isEntryKey(target) ? targets.written(target) : undefined;
    if (outcome.state !== 'synced' || written === undefined) return false;
    const view = source === undefined || !isEntryKey(source) ? undefined : sources.view(source);
    return view === undefined || (view.state === 'present' && view.version === written.sourceVersion);
  }

  #entryVersion(entry: Entry | undefined): string | undefined {
    // If the mirror chooses keys, the entry lacks a part of the credentials, and cannot restore the lease.
    const isWhole = entry !== undefined && entry.claim.selection === undefined;
    if (!isWhole || !this.#holdsPresent(entry)) return undefined;
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
