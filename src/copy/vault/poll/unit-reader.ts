/**
 * Reads a unit from Vault if the entry has changed, and sets the unit's view. A unit is what one poll reads (`Unit`).
 *
 * At first, all rules that read an entry in the same way share one unit. If its mount is not a KV store, the unit is
 * split into one unit for each rule before the first read. If a policy forbids reading the mount, a recorded lease or
 * the first response shows that the credentials are dynamic. The lease in this response goes to one of the rules.
 *
 * Dynamic credentials that cannot be used are revoked at once, and new credentials are requested later.
 */
import { randomUUID } from 'node:crypto';

import type { ByteCache } from '../../../runtime/maps.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { FoundEntry, KvEntry, LeaseGrant } from '../../../vault/kv/answers.ts';
import type { SourceLease, SourceView } from '../../model/claim.ts';
import { Content, type Fingerprint } from '../../model/content.ts';
import type { VaultConnection, VaultTrouble } from '../access/access.ts';
import { absentView, contentOf, distinctVersionOf, invalid, presentView, versionOf } from './entry-view.ts';
import type { VaultLease } from '../leases/lease.ts';
import { leaseVersion, type VaultLeases } from '../leases/leases.ts';
import { vaultLeaseOrigin, type VaultLocations, type VaultLocation } from '../locations.ts';
import type { EntryKey, RuleKey } from '../../model/keys.ts';

interface UnitReaderOptions {
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly locations: VaultLocations;
  readonly leases: VaultLeases;
  /** The cached contents, by `contentKey`. */
  readonly contents: ByteCache<Content>;
  /** Replaces a shared unit by one unit for each rule, and returns the new units. */
  readonly split: (unit: Unit) => readonly DynamicUnit[];
  /** Called when the lease in a response went to another unit than the one that is read. */
  readonly onChange: (unit: Unit) => void;
}

/** Wait after credentials that cannot be used, ms, or the poll period if this is longer. */
const UNUSABLE_MS = 600_000;

export function contentKey({ key }: Unit, version: string): string {
  return `${key}@${version}`;
}

export class UnitReader {
  readonly #options: UnitReaderOptions;
  /** A prefix of versions that this process counts itself, for entries without a distinct version in Vault. */
  readonly #process = randomUUID().slice(0, 8);
  #count = 0;

  constructor(options: UnitReaderOptions) {
    this.#options = options;
  }

  /**
   * Sets `unit.view` to the state of the entry.
   * @returns ms until the next read; `undefined`: the usual poll period
   * @throws VaultError if Vault's response does not tell the state of the entry; `unit.view` then stays unchanged
   */
  async read(unit: Unit, connection: VaultConnection, signal: AbortSignal): Promise<number | undefined> {
    const { location } = unit;
    if (isDynamic(unit)) {
      const waitMs = await this.#maintain(unit, connection, signal);
      if (waitMs !== undefined) {
        unit.needsContent = false;
        return waitMs;
      }
    }
    if (unit.view.state !== 'present') {
      const { mount, known } = await connection.entries.resolve(location.path, signal);
      const noKv = known && mount.kind === 'other';
      if (!isDynamic(unit) && (noKv || (!known && this.#hasRecord(unit)))) {
        this.#options.split(unit);
        return undefined;
      }
      if (noKv && location.encoding === 'base64') {
        unit.view = invalid(
          `the vault path ${location.path} is not in a KV store, so its values are not base64; remove encoding`,
        );
        return undefined;
      }
    }
    const askedAt = this.#options.clock.now();
    const entry = await this.#readIfChanged(unit, connection, signal);
    unit.needsContent = false;
    if (entry === undefined) return undefined;
    if (entry.state !== 'found') {
      this.#dropLease(unit);
      unit.view = absentView(entry, location, connection.session.addr);
      return undefined;
    }
    unit.entryVersion = distinctVersionOf(entry, askedAt);
    return await this.#found(unit, connection, entry, signal);
  }

  /** Restores or renews the lease if needed. @returns ms until the next read; `undefined`: credentials are needed */
  async #maintain(unit: DynamicUnit, connection: VaultConnection, signal: AbortSignal): Promise<number | undefined> {
    const { leases, locations } = this.#options;
    if (!unit.isRestoreTried) {
      const lease = await leases.restore(unit, connection, unit.location.secretType ?? '', signal);
      unit.isRestoreTried = true;
      if (lease !== undefined) this.#setLease(unit, lease);
    }
    if (unit.lease === undefined) return undefined;
    const waitMs = await leases.maintain(unit.lease, unit.pollMs(locations), signal);
    if (waitMs === 'replace') return undefined;
    this.updateView(unit, unit.lease);
    return waitMs;
  }

  /** Whether a rule that shares the unit has a recorded lease of this origin, so the credentials are dynamic. */
  #hasRecord({ members }: Unit): boolean {
    return [...members].some((member) => this.#options.leases.hasRecord(member));
  }

  /** Reads the entry only if its version has changed. @returns `undefined`: the entry has not changed */
  async #readIfChanged(unit: Unit, { entries }: VaultConnection, signal: AbortSignal): Promise<KvEntry | undefined> {
    const { path } = unit.location;
    const { entryVersion, lease, needsContent, view } = unit;
    if (view.state !== 'present' || needsContent || lease !== undefined || entryVersion === undefined) {
      return await entries.read(path, signal);
    }
    const seen = await entries.readVersion(path, signal);
    if (seen.state !== 'found' || 'values' in seen) return seen;
    return versionOf(seen) === entryVersion ? undefined : await entries.read(path, signal);
  }

  async #found(
    unit: Unit,
    connection: VaultConnection,
    entry: FoundEntry,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const version = entry.lease === undefined ? unit.entryVersion : leaseVersion(entry.lease.leaseId);
    const made = contentOf(entry, unit.location, version ?? '');
    if (entry.lease !== undefined) return await this.#granted(unit, connection, entry.lease, made, signal);
    if (!(made instanceof Content)) {
      unit.view = made;
      return undefined;
    }
    this.#dropLease(unit);
    const content = made.withVersion(this.#versionOf(unit, made, version));
    unit.fingerprint = { version: content.version, fingerprint: content.fingerprint };
    unit.view = presentView(content.version);
    this.#options.contents.set(contentKey(unit, content.version), content, content.weight);
    return undefined;
  }

  async #granted(
    unit: Unit,
    connection: VaultConnection,
    grant: LeaseGrant,
    made: Content | SourceView,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { leases, locations, split, onChange } = this.#options;
    if (!(made instanceof Content)) {
      unit.view = made;
      await leases.discard(unit, connection, grant.leaseId, signal);
      return Math.max(unit.pollMs(locations), UNUSABLE_MS);
    }
    const user = isDynamic(unit) ? unit : split(unit)[0];
    if (user === undefined || user.isClosed) {
      // During the read the rule has stopped using the source.
      await leases.discard(unit, connection, grant.leaseId, signal);
      return undefined;
    }
    const old = user.lease;
    user.isRestoreTried = true;
    this.#setLease(user, leases.granted(user, connection, grant, made));
    if (old !== undefined) leases.replaced(old);
    if (user !== unit) onChange(user);
    return Math.min(user.pollMs(locations), grant.durationSeconds * 500);
  }

  /**
   * The version that copies get. If Vault has no distinct version of an entry, this process counts one for each change of
   * the digest. While the content is the same, a counted version stays: no write.
   */
  #versionOf({ fingerprint }: Unit, content: Content, distinct: string | undefined): string {
    const prefix = `${this.#process}-`;
    const before = fingerprint?.fingerprint.digest === content.fingerprint.digest ? fingerprint.version : undefined;
    if (before !== undefined && (distinct === undefined || before.startsWith(prefix))) return before;
    return distinct ?? `${prefix}${++this.#count}`;
  }

  #setLease(unit: Unit, lease: VaultLease): void {
    unit.lease = lease;
    unit.fingerprint = { version: leaseVersion(lease.leaseId), fingerprint: lease.content.fingerprint };
    this.updateView(unit, lease);
  }

  /** Until the status of the rule names the lease, the view stays as it was, and no copy gets the credentials. */
  updateView(unit: Unit, lease: VaultLease): void {
    if (lease.isRecorded) unit.view = presentView(leaseVersion(lease.leaseId), leaseFacts(unit.location, lease));
  }

  #dropLease(unit: Unit): void {
    if (unit.lease !== undefined) this.#options.leases.replaced(unit.lease);
    unit.lease = undefined;
  }
}

/** What the status and the copies of a rule say of its lease. */
export function leaseFacts(
  location: VaultLocation,
  { leaseId, durationSeconds, tokenExpiresAt }: VaultLease,
): SourceLease {
  return { id: leaseId, seconds: durationSeconds, origin: vaultLeaseOrigin(location), tokenExpiresAt };
}

export const UNKNOWN: SourceView = { state: 'unknown' };

/**
 * A unit is what one poll reads from Vault. A KV entry is one unit for all rules that read it in the same way
 * (`vaultPollKey`). For dynamic credentials each rule has its own unit.
 *
 * The view of a unit is the state of its sources:
 *
 *   unknown ──▶ present ⇄ missing | failed
 *
 * - If an entry does not exist, is deleted or is destroyed, the view is *missing*. If a target cannot have its values,
 *   the view is *failed*. Neither ever counts as an empty entry.
 * - While Vault does not answer, a present view stays present, and `trouble` has the error to report. Other views are
 *   failed, or, while there is no credential for the login, missing.
 * - Dynamic credentials are present as long as their lease is live (`VaultLeases`).
 */
export class Unit<R extends RuleKey | undefined = RuleKey | undefined> {
  /** The key of the unit in the queue of polls. */
  readonly key: EntryKey;
  readonly location: VaultLocation;
  /** The rule that the dynamic credentials are for; `undefined`: all rules of `members` share the unit. */
  readonly rule: R;
  /** The sources that share the unit's view. */
  readonly members = new Set<EntryKey>();
  view = UNKNOWN;
  /** The version of the entry that was read; `undefined`: it has no distinct version. @see distinctVersionOf */
  entryVersion: string | undefined;
  trouble: VaultTrouble | undefined;
  fingerprint: { readonly version: string; readonly fingerprint: Fingerprint } | undefined;
  /** Whether a target needs content that is not in the cache. */
  needsContent = false;
  lease: VaultLease | undefined;
  /** Whether Keyferry has already looked for a lease from before its restart. */
  isRestoreTried = false;
  /** Whether no rule uses the unit, or other units have replaced it. */
  isClosed = false;

  constructor(key: EntryKey, location: VaultLocation, rule: R) {
    this.key = key;
    this.location = location;
    this.rule = rule;
  }

  /** The shortest poll period of the unit's members, ms; `Infinity` without rules. */
  pollMs(locations: VaultLocations): number {
    return Math.min(...Array.from(this.members, (member) => locations.pollMs(member)));
  }
}

/** A unit that reads dynamic credentials for one rule. */
export type DynamicUnit = Unit<RuleKey>;

function isDynamic(unit: Unit): unit is DynamicUnit {
  return unit.rule !== undefined;
}
