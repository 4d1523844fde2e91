/**
 * Keyferry polls Vault by units. A KV entry is one unit for all rules that read it in the same way (`vaultPollKey`). For dynamic
 * credentials each rule has its own unit.
 *
 * State of a unit (its view):
 *
 *   unknown ──▶ present ⇄ missing | failed
 *
 * - An entry that does not exist, is deleted or is destroyed is *missing*. An entry with values that a target cannot hold is *failed*.
 *   Neither ever counts as an empty entry.
 * - While Vault does not answer, a present entry stays present, with *trouble* to report. Other entries are failed, or missing while there
 *   is no credential.
 * - Dynamic credentials are present as long as their lease is live (`leases.ts`).
 */
import type { SourceView } from '../../model/claim.ts';
import type { Fingerprint } from '../../model/content.ts';
import type { EntryKey, RuleKey } from '../../model/keys.ts';
import type { VaultTrouble } from '../access/access.ts';
import type { EarlyEnds } from '../leases/lease-plan.ts';
import type { Lease } from '../leases/lease.ts';
import type { VaultLocation } from '../locations.ts';

export const UNKNOWN: SourceView = { state: 'unknown' };

export class Unit<R extends RuleKey | undefined = RuleKey | undefined> {
  /** Key of its polls. */
  readonly key: EntryKey;
  readonly location: VaultLocation;
  /** The rule of dynamic credentials; `undefined`: shared. */
  readonly rule: R;
  /** The sources with its view. */
  readonly members = new Set<EntryKey>();
  view = UNKNOWN;
  /** Of the entry that was read. @see distinctVersionOf */
  entryVersion: string | undefined;
  trouble: VaultTrouble | undefined;
  fingerprint: { readonly version: string; readonly fingerprint: Fingerprint } | undefined;
  /** A target needs content that is not in the cache. */
  needsContent = false;
  lease: Lease | undefined;
  /** `undefined`: no lease ended early. */
  earlyEnds: EarlyEnds | undefined;
  /** A lease from before a restart was looked for. */
  isRestoreTried = false;
  /** The credential changed during a poll. */
  credentialChanged = false;
  /** Number of unusable credentials in a row. */
  unusableInARow = 0;

  constructor(key: EntryKey, location: VaultLocation, rule: R) {
    this.key = key;
    this.location = location;
    this.rule = rule;
  }
}

/** A unit of dynamic credentials. */
export type DynamicUnit = Unit<RuleKey>;

export function isDynamic(unit: Unit): unit is DynamicUnit {
  return unit.rule !== undefined;
}
