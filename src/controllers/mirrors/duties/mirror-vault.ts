/** Connects SecretMirrors to the Vault backend: the entries that they use, and the records, events and metrics of their leases. */
import { type EntryKey, isEntryKey, type ResourceKey, type RuleKey, ruleName } from '../../../copy/model/keys.ts';
import type { VaultTrouble } from '../../../copy/vault/access/access.ts';
import type { LeaseObserver } from '../../../copy/vault/backend.ts';
import { vaultLeaseOrigin, type VaultLocation, vaultSourceKey, type VaultUse } from '../../../copy/vault/locations.ts';
import type { LeaseEvent } from '../../../copy/vault/leases/lease.ts';
import type { LeaseRecord } from '../../../copy/vault/leases/leases.ts';
import type { RuleEvent } from '../../common/rules/rule-statuses.ts';
import { MIRROR_ANNOTATIONS, type SecretMirror, type VaultBlock } from '../api.ts';
import type { MirrorMetrics } from '../metrics.ts';
import { MirrorLeases, type MirrorLeasesOptions } from './mirror-leases.ts';
import type { MirrorStore } from '../rules/mirror-store.ts';
import { LEASE_ORIGIN_ANNOTATION } from '../rules/shape.ts';
import { type EffectiveSpec, sourceLocationOf } from '../rules/spec.ts';

export interface MirrorVaultOptions extends MirrorLeasesOptions {
  readonly mirrors: MirrorStore;
  readonly metrics: MirrorMetrics;
  readonly recordEvent: (mirror: SecretMirror, event: RuleEvent) => void;
}

export class MirrorVault implements LeaseObserver {
  readonly #options: MirrorVaultOptions;
  readonly leases: MirrorLeases;

  constructor(options: MirrorVaultOptions) {
    this.#options = options;
    this.leases = new MirrorLeases(options);
    options.backend.setLeaseObserver(this);
  }

  sourceOf(rule: RuleKey, { sourceLocation }: EffectiveSpec): EntryKey | undefined {
    return sourceLocation === undefined ? undefined : vaultSourceKey(sourceLocation, rule);
  }

  /** The key of an entry as a target. */
  targetKeyOf(location: VaultLocation | undefined): EntryKey | undefined {
    return location === undefined ? undefined : this.#options.backend.locations.targetKeyOf(location);
  }

  trouble(source: ResourceKey): VaultTrouble | undefined {
    return this.#options.backend.trouble(source);
  }

  /** Registers the entries that a mirror uses. */
  use(rule: RuleKey, spec: EffectiveSpec): void {
    const { sourceLocation, destinationLocation, pollPeriodSeconds: pollSeconds } = spec;
    const uses: VaultUse[] = [];
    if (sourceLocation !== undefined) {
      uses.push({ key: vaultSourceKey(sourceLocation, rule), location: sourceLocation, pollSeconds });
    }
    if (destinationLocation !== undefined) {
      const key = this.#options.backend.locations.targetKeyOf(destinationLocation);
      uses.push({ key, location: destinationLocation, pollSeconds });
    }
    this.#options.backend.locations.set(rule, uses);
  }

  /** The mirror no longer uses any entry. */
  release(rule: RuleKey): void {
    this.#options.backend.locations.set(rule, []);
    if (this.#options.mirrors.get(rule) === undefined) this.leases.remove(rule);
  }

  *leaseRecordsOf(key: EntryKey): Iterable<LeaseRecord> {
    const { backend, mirrors } = this.#options;
    const location = backend.locations.get(key);
    const [rule] = backend.locations.users(key);
    const mirror = rule === undefined ? undefined : mirrors.get(rule);
    if (location === undefined || rule === undefined || mirror === undefined) return;
    const { vaultSource, vaultLeases = [] } = mirror.status ?? {};
    const copies = this.#copiesOf(rule, location);
    const { leaseID } = vaultSource ?? {};
    // The lease in the status comes first, because copies may have an older one.
    if (leaseID !== undefined) {
      const record = vaultLeases.find((one) => one.leaseID === leaseID);
      const held = copies.get(leaseID)?.copies ?? [];
      copies.delete(leaseID);
      // Without a record the copies show its origin.
      const belongs = record === undefined ? held.length > 0 : this.#isOf(location, mirror, record.vault);
      const tokenEnd = Date.parse(vaultSource?.tokenExpirationTime ?? '');
      const entryVersion = record?.destinationVersion;
      if (belongs) {
        yield {
          leaseId: leaseID,
          durationSeconds: vaultSource?.leaseDuration ?? 0,
          tokenExpiresAt: Number.isNaN(tokenEnd) ? undefined : tokenEnd,
          copies: entryVersion === undefined ? held : [...held, ...this.#entriesOf(rule)],
          entryVersion,
        };
      }
    }
    for (const [leaseId, { durationSeconds, copies: held }] of copies) {
      yield { leaseId, durationSeconds, tokenExpiresAt: undefined, copies: held };
    }
  }

  /** The copies of a rule with credentials of this origin, by lease id. */
  #copiesOf(rule: RuleKey, location: VaultLocation): Map<string, { durationSeconds: number; copies: ResourceKey[] }> {
    const origin = vaultLeaseOrigin(location);
    const leases = new Map<string, { durationSeconds: number; copies: ResourceKey[] }>();
    for (const { key, leaseId, annotations } of this.leases.copies(rule)) {
      // Copies of the original have only the path.
      const marked = annotations[LEASE_ORIGIN_ANNOTATION];
      const path = annotations[MIRROR_ANNOTATIONS.vaultPath];
      if (marked === undefined ? path !== location.path : marked !== origin) continue;
      const lease = leases.get(leaseId) ?? {
        durationSeconds: secondsOf(annotations[MIRROR_ANNOTATIONS.vaultLeaseDuration]),
        copies: [],
      };
      lease.copies.push(key);
      leases.set(leaseId, lease);
    }
    return leases;
  }

  #entriesOf(rule: RuleKey): EntryKey[] {
    return Array.from(this.#options.engine.book.of(rule), ({ claim }) => claim.target).filter(isEntryKey);
  }

  #isOf(location: VaultLocation, mirror: SecretMirror, block: VaultBlock): boolean {
    const other = sourceLocationOf(mirror, block, this.#options.specOptions);
    return other !== undefined && vaultLeaseOrigin(other) === vaultLeaseOrigin(location);
  }

  onLease(key: EntryKey, event: LeaseEvent): void {
    const { engine, backend, mirrors, metrics, recordEvent } = this.#options;
    const addr = backend.locations.get(key)?.server.addr ?? '';
    for (const rule of backend.locations.users(key)) {
      const mirror = mirrors.get(rule);
      if (mirror === undefined) continue;
      const name = ruleName(rule);
      if (event.type === 'granted') {
        const message = `Fetched new credentials under the lease ${event.leaseId}`;
        recordEvent(mirror, { type: 'Normal', reason: 'VaultNewCreds', message });
      } else if (event.type === 'renewed') {
        recordEvent(mirror, { type: 'Normal', reason: 'VaultLeaseRenew', message: 'Renewed lease successfully' });
        metrics.leaseRenewed(name, addr);
      } else if (event.type === 'renewFailed') {
        metrics.leaseRenewFailed(name, addr, event.httpStatus);
      }
      engine.enqueueStatus(rule);
    }
  }
}

/** Any user may write this annotation. @returns 0 if it is not a number */
function secondsOf(text = ''): number {
  return /^\d{1,10}$/u.test(text) ? Number(text) : 0;
}
