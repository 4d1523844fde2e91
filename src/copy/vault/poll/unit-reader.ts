/**
 * Reads a unit from Vault, if it changed, and sets its view.
 *
 * Every unit starts as a shared one. If its mount is not a KV store, it is split into one unit for each rule, before
 * the first read. If a policy forbids reading the mount, a recorded lease or the first response shows that the
 * credentials are dynamic. The lease of this response goes to one of the rules.
 *
 * Dynamic credentials that cannot be used are revoked at once, and the next ones are requested at growing intervals.
 * The intervals grow, too, while a server ends leases early again and again.
 */
import { randomUUID } from 'node:crypto';

import type { ByteCache } from '../../../runtime/maps.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { FoundEntry, KvEntry, LeaseGrant } from '../../../vault/kv/answers.ts';
import { VaultError } from '../../../vault/errors.ts';
import type { SourceView } from '../../model/claim.ts';
import { Content, type Fingerprint } from '../../model/content.ts';
import type { VaultConnection, VaultTrouble } from '../access/access.ts';
import { absentView, contentOf, distinctVersionOf, invalid, presentView, versionOf } from './entry-view.ts';
import { withEarlyEnd, type EarlyEnds, type Lease } from '../leases/lease.ts';
import { leaseVersion, type VaultLeases } from '../leases/leases.ts';
import { vaultLeaseOrigin, type VaultLocations, type VaultLocation } from '../locations.ts';
import type { EntryKey, RuleKey } from '../../model/keys.ts';

export interface UnitReaderOptions {
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly locations: VaultLocations;
  readonly leases: VaultLeases;
  /** The cached contents, by `contentKey`. */
  readonly contents: ByteCache<Content>;
  /** Replaces a shared unit by one unit for each rule. */
  readonly split: (unit: Unit) => readonly DynamicUnit[];
  /** Called when another unit than the one that is read has changed. */
  readonly onChange: (unit: Unit) => void;
}

/** Wait after credentials that cannot be used, ms; it doubles each time. */
const UNUSABLE_WAIT = { first: 60_000, longest: 3_600_000 };
/** Wait of a source until the rules are evaluated that now know its entry under another path, ms. */
const RENAMED_MS = 50;

export function contentKey({ key }: Unit, version: string): string {
  return `${key}@${version}`;
}

export class UnitReader {
  readonly #options: UnitReaderOptions;
  /** Part of the version of entries without a distinct version in Vault. It differs between processes. */
  readonly #process = randomUUID().slice(0, 8);
  #count = 0;

  constructor(options: UnitReaderOptions) {
    this.#options = options;
  }

  /**
   * @returns ms until the next read, if it is not the poll period
   * @throws VaultError if Vault does not respond with the state of the entry; the unit keeps its view
   */
  async read(unit: Unit, connection: VaultConnection, signal: AbortSignal): Promise<number | undefined> {
    const { location } = unit;
    if (isDynamic(unit)) {
      const waitMs = await this.#maintain(unit, connection, signal);
      if (waitMs !== undefined) return waitMs;
    }
    if (unit.view.state !== 'present') {
      const place = await connection.entries.resolve(location.path, signal);
      const { mount, known } = place;
      // Under the new path the source's claims may be part of a cycle, so the rules are evaluated first.
      if (this.#options.locations.learn(location, place)) return RENAMED_MS;
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

  /** Renews the lease if that is due. @returns `undefined` if new credentials are needed */
  async #maintain(unit: DynamicUnit, connection: VaultConnection, signal: AbortSignal): Promise<number | undefined> {
    const { leases, locations } = this.#options;
    if (!unit.isRestoreTried) {
      const lease = await leases.restore(unit, connection, unit.location.secretType ?? '', signal);
      unit.isRestoreTried = true;
      if (lease !== undefined) this.#setLease(unit, lease);
    }
    if (unit.lease === undefined) return undefined;
    const waitMs = await leases.maintain(unit.lease, unit.pollMs(locations), signal);
    if (waitMs === 'endedEarly') unit.earlyEnds = withEarlyEnd(unit.earlyEnds, this.#options.clock.monotonic());
    if (typeof waitMs !== 'number') {
      this.#checkPace(unit, connection);
      return undefined;
    }
    this.#updateView(unit, unit.lease);
    return waitMs;
  }

  /** @throws VaultError while it is too early for new credentials, because Vault ends their leases early */
  #checkPace({ earlyEnds, location: { path } }: DynamicUnit, { session: { addr } }: VaultConnection): void {
    const retryAfterMs = (earlyEnds?.until ?? 0) - this.#options.clock.monotonic();
    if (retryAfterMs <= 0) return;
    const reason = 'the leases end early again and again, so new credentials are requested at growing intervals';
    throw new VaultError(reason, { kind: 'leaseGone', addr, path, retryAfterMs });
  }

  /** Whether a rule that shares the unit had dynamic credentials of this origin. */
  #hasRecord({ members }: Unit): boolean {
    return [...members].some((member) => this.#options.leases.hasRecord(member));
  }

  /** @returns `undefined` if the entry has not changed */
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
    const content = version === undefined || this.#isCounted(unit, made) ? this.#withCountedVersion(unit, made) : made;
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
      return Math.max(
        unit.pollMs(locations),
        Math.min(UNUSABLE_WAIT.first * 2 ** unit.unusableInARow++, UNUSABLE_WAIT.longest),
      );
    }
    const user = isDynamic(unit) ? unit : split(unit)[0];
    if (user === undefined || user.isClosed) {
      // The rule stopped to use the source during the read.
      await leases.discard(unit, connection, grant.leaseId, signal);
      return undefined;
    }
    const old = user.lease;
    user.isRestoreTried = true;
    user.unusableInARow = 0;
    this.#setLease(user, leases.granted(user, connection, grant, made));
    if (old !== undefined) leases.replaced(old);
    if (user !== unit) onChange(user);
    return Math.min(user.pollMs(locations), grant.durationSeconds * 500);
  }

  /** Whether the same content has a counted version. It keeps this version, so that its copies need no write. */
  #isCounted({ fingerprint }: Unit, content: Content): boolean {
    return (
      fingerprint?.fingerprint.digest === content.fingerprint.digest &&
      fingerprint.version.startsWith(`${this.#process}-`)
    );
  }

  /** If Vault gives no distinct version, a change of the digest makes a new version. */
  #withCountedVersion({ fingerprint }: Unit, content: Content): Content {
    const same = fingerprint?.fingerprint.digest === content.fingerprint.digest;
    return content.withVersion(same ? fingerprint.version : `${this.#process}-${++this.#count}`);
  }

  #setLease(unit: Unit, lease: Lease): void {
    unit.lease = lease;
    unit.fingerprint = { version: leaseVersion(lease.leaseId), fingerprint: lease.content.fingerprint };
    this.#updateView(unit, lease);
  }

  #updateView(unit: Unit, { leaseId, durationSeconds, tokenExpiresAt }: Lease): void {
    const origin = vaultLeaseOrigin(unit.location);
    unit.view = presentView(leaseVersion(leaseId), { id: leaseId, seconds: durationSeconds, origin, tokenExpiresAt });
  }

  #dropLease(unit: Unit): void {
    if (unit.lease !== undefined) this.#options.leases.replaced(unit.lease);
    unit.lease = undefined;
  }
}

export const UNKNOWN: SourceView = { state: 'unknown' };

/**
 * Keyferry polls Vault by units. A KV entry is one unit for all rules that read it in the same way (`vaultPollKey`).
 * For dynamic credentials each rule has its own unit.
 *
 * State of a unit (its view):
 *
 *   unknown ──▶ present ⇄ missing | failed
 *
 * - An entry that does not exist, is deleted or is destroyed is *missing*. An entry with values that a target cannot
 *   hold is *failed*. Neither ever counts as an empty entry.
 * - While Vault does not answer, a present entry stays present, with *trouble* to report. Other entries are failed, or
 *   missing while there is no credential.
 * - Dynamic credentials are present as long as their lease is live (`VaultLeases`).
 */
export class Unit<R extends RuleKey | undefined = RuleKey | undefined> {
  /** The key of the unit's polls. */
  readonly key: EntryKey;
  readonly location: VaultLocation;
  /** The rule of dynamic credentials; `undefined`: shared. */
  readonly rule: R;
  /** The sources that share the unit's view. */
  readonly members = new Set<EntryKey>();
  view = UNKNOWN;
  /** The version of the entry that was read. @see distinctVersionOf */
  entryVersion: string | undefined;
  trouble: VaultTrouble | undefined;
  fingerprint: { readonly version: string; readonly fingerprint: Fingerprint } | undefined;
  /** Whether a target needs content that is not in the cache. */
  needsContent = false;
  lease: Lease | undefined;
  /** `undefined`: no lease ended early. */
  earlyEnds: EarlyEnds | undefined;
  /** Whether a lease from before a restart was searched. */
  isRestoreTried = false;
  /** Whether the credential changed during a poll. */
  credentialChanged = false;
  /** Number of unusable credentials in a row. */
  unusableInARow = 0;
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

/** A unit of dynamic credentials. */
export type DynamicUnit = Unit<RuleKey>;

export function isDynamic(unit: Unit): unit is DynamicUnit {
  return unit.rule !== undefined;
}
