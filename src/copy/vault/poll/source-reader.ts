/**
 * Reads a source from Vault, and sets its view. Each rule has sources of its own: dynamic credentials are made for one
 * rule.
 *
 * Each poll reads the values of an entry. If they have not changed, the view stays, and they are dropped at once.
 * Dynamic credentials that cannot be used are revoked at once, and new credentials are requested later.
 */
import { randomUUID } from 'node:crypto';

import type { ByteCache } from '../../../runtime/maps.ts';
import type { LeaseGrant } from '../../../vault/kv/answers.ts';
import type { SourceLease, SourceView } from '../../model/claim.ts';
import { Content, type Fingerprint } from '../../model/content.ts';
import type { VaultConnection, VaultTrouble } from '../access/access.ts';
import { absentView, contentOf, distinctVersionOf, invalid, presentView } from './entry-view.ts';
import type { VaultLease } from '../leases/lease.ts';
import { leaseVersion, type VaultLeases } from '../leases/leases.ts';
import { vaultLeaseOrigin, type VaultLocations, type VaultLocation } from '../locations.ts';
import type { EntryKey, RuleKey } from '../../model/keys.ts';

interface SourceReaderOptions {
  readonly locations: VaultLocations;
  readonly leases: VaultLeases;
  /** The cached contents, by the keys of the sources. */
  readonly contents: ByteCache<Content>;
}

/** Wait after credentials that cannot be used, ms, or the poll period if this is longer. */
const UNUSABLE_MS = 600_000;

export class SourceReader {
  readonly #options: SourceReaderOptions;
  /** A prefix of versions that this process counts itself, for entries without a distinct version in Vault. */
  readonly #process = randomUUID().slice(0, 8);
  #count = 0;

  constructor(options: SourceReaderOptions) {
    this.#options = options;
  }

  /**
   * Sets `source.view` to the state of the entry.
   * @returns ms until the next read; `undefined`: the usual poll period
   * @throws VaultError if Vault's response does not tell the state of the entry; `source.view` then stays unchanged
   */
  async read(source: VaultSource, connection: VaultConnection, signal: AbortSignal): Promise<number | undefined> {
    const { location } = source;
    const waitMs = await this.#maintain(source, connection, signal);
    if (waitMs !== undefined) return waitMs;
    if (source.view.state !== 'present' && location.encoding === 'base64') {
      const { mount, known } = await connection.entries.resolve(location.path, signal);
      if (known && mount.kind === 'other') {
        const { path } = location;
        source.view = invalid(
          `the vault path ${path} is not in a KV store, so its values are not base64; remove encoding`,
        );
        return undefined;
      }
    }
    const entry = await connection.entries.read(location.path, signal);
    if (entry.state !== 'found') {
      this.#dropLease(source);
      source.view = absentView(entry, location, connection.session.addr);
      return undefined;
    }
    const { lease } = entry;
    const version = lease === undefined ? distinctVersionOf(entry) : leaseVersion(lease.leaseId);
    const made = contentOf(entry, location, version);
    if (lease !== undefined) return await this.#granted(source, connection, lease, made, signal);
    if (made instanceof Content) this.#found(source, made);
    else source.view = made;
    return undefined;
  }

  /** Restores or renews the lease if needed. @returns ms until the next read; `undefined`: credentials are needed */
  async #maintain(source: VaultSource, connection: VaultConnection, signal: AbortSignal): Promise<number | undefined> {
    const { leases, locations } = this.#options;
    if (!source.isRestoreTried) {
      const lease = await leases.restore(source, connection, source.location.secretType ?? '', signal);
      source.isRestoreTried = true;
      if (lease !== undefined) this.#setLease(source, lease);
    }
    if (source.lease === undefined) return undefined;
    const waitMs = await leases.maintain(source.lease, locations.pollMs(source.key), signal);
    if (waitMs === 'replace') return undefined;
    this.updateView(source, source.lease);
    return waitMs;
  }

  /**
   * Copies get the version of Vault, or, if it is not distinct, one that this process counts. Content that has not
   * changed keeps its version, so that nothing is decided again. Only content that is needed goes into the cache.
   */
  #found(source: VaultSource, content: Content): void {
    this.#dropLease(source);
    const before = source.fingerprint;
    const isSame = before?.fingerprint.digest === content.fingerprint.digest;
    const version = isSame ? before.version : content.version || `${this.#process}-${++this.#count}`;
    source.view = presentView(version);
    if (isSame && !source.needsContent) return;
    source.fingerprint = { version, fingerprint: content.fingerprint };
    this.#options.contents.set(source.key, content.withVersion(version), content.weight);
  }

  async #granted(
    source: VaultSource,
    connection: VaultConnection,
    grant: LeaseGrant,
    made: Content | SourceView,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { leases, locations } = this.#options;
    if (!(made instanceof Content)) {
      source.view = made;
      await leases.discard(source, connection, grant.leaseId, signal);
      return Math.max(locations.pollMs(source.key), UNUSABLE_MS);
    }
    if (source.isClosed) {
      // During the read the rule has stopped using the source.
      await leases.discard(source, connection, grant.leaseId, signal);
      return undefined;
    }
    const old = source.lease;
    this.#setLease(source, leases.granted(source, connection, grant, made));
    if (old !== undefined) leases.replaced(old);
    return Math.min(locations.pollMs(source.key), grant.durationSeconds * 500);
  }

  #setLease(source: VaultSource, lease: VaultLease): void {
    source.lease = lease;
    source.fingerprint = { version: leaseVersion(lease.leaseId), fingerprint: lease.content.fingerprint };
    this.updateView(source, lease);
  }

  /** Until the status of the rule names the lease, the view stays as it was, and no copy gets the credentials. */
  updateView(source: VaultSource, lease: VaultLease): void {
    if (lease.isRecorded) source.view = presentView(leaseVersion(lease.leaseId), leaseFacts(source.location, lease));
  }

  #dropLease(source: VaultSource): void {
    if (source.lease !== undefined) this.#options.leases.replaced(source.lease);
    source.lease = undefined;
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
 * What one poll reads from Vault, for one rule. The view:
 *
 *   unknown ──▶ present ⇄ missing | failed
 *
 * - If an entry does not exist, is deleted or is destroyed, the view is *missing*. If a target cannot have its values,
 *   the view is *failed*. Neither ever counts as an empty entry.
 * - While Vault does not answer, a present view stays present, and `trouble` has the error to report. Other views are
 *   failed, or, while there is no credential for the login, missing.
 * - Dynamic credentials are present as long as their lease is live (`VaultLeases`).
 */
export class VaultSource {
  readonly key: EntryKey;
  readonly location: VaultLocation;
  readonly rule: RuleKey;
  view = UNKNOWN;
  trouble: VaultTrouble | undefined;
  fingerprint: { readonly version: string; readonly fingerprint: Fingerprint } | undefined;
  /** Whether a target needs content that is not in the cache. */
  needsContent = false;
  lease: VaultLease | undefined;
  /** Whether Keyferry has already looked for a lease from before its restart. */
  isRestoreTried = false;
  /** Whether its rule no longer uses the source. */
  isClosed = false;

  constructor(key: EntryKey, location: VaultLocation, rule: RuleKey) {
    this.key = key;
    this.location = location;
    this.rule = rule;
  }
}
