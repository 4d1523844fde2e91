/** The input and the output of `plan`. */
import type { Entry } from '../book/claim-book.ts';
import type { Cause } from '../model/cause.ts';
import type { Claim, ClaimMode, DesiredObject, Outcome, SourceView, WaitsFor } from '../model/claim.ts';
import type { Fingerprint } from '../model/content.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import type { Observed } from '../model/observed.ts';
import type { OrphanAction } from '../model/rule-set.ts';

/** The content that the target has in one of its versions. */
export interface Held {
  /** @see contentVersion */
  readonly version: string;
  readonly fingerprint: Fingerprint;
  /** The digest of the keys that are ours, if the target has others, too (`Merged`); `undefined`: not read. */
  readonly part?: string | undefined;
}

/** The facts that decide which of several claims on a target gets it. */
export interface Contest {
  readonly entries: readonly Entry[];
  /** The rule that has the target by its mark (@see Claims.ownersOf); for a Vault entry `Unmarked.holder`. */
  readonly markedBy: RuleKey | undefined;
  /** The rules whose marks on the target count, but that do not claim it. */
  readonly leftBy: readonly RuleKey[];
  /** The metadata of the target; `undefined`: it is not known to exist, or is an entry in Vault. */
  readonly observed: Observed | undefined;
  /** The state of a claim's source. In `Facts` it is the state that the plan was made from, also after the plan. */
  readonly viewOf: (claim: Claim) => SourceView;
  /** Wall clock, ms. */
  readonly now: number;
}

/**
 * An entry in Vault. It has no metadata, so it can have no mark. Any rule may write it, and Keyferry never deletes it.
 * The holder is the rule whose content the entry had when Keyferry last wrote or read it; `undefined`: not known, as
 * after a restart.
 */
export interface Unmarked {
  readonly holder: RuleKey | undefined;
}

export interface Facts extends Contest {
  readonly target: ResourceKey;
  /** Set if the target is an entry in Vault; `undefined`: it is an object of a cluster. */
  readonly unmarked?: Unmarked | undefined;
  /** `unknown`: the caches do not have the target, but it may exist. */
  readonly presence: 'present' | 'absent' | 'unknown';
  /** A rule that copies from the target, for messages. Only the target's own rule may delete it, to replace it. */
  readonly usedBy: string | undefined;
  /** Whether Keyferry has deleted the target, and no watch has confirmed this yet. */
  readonly goingAway: boolean;
  /** The fingerprint of the source's content at its present version; `undefined`: this content was not read yet. */
  readonly fingerprintOf: (claim: Claim) => Fingerprint | undefined;
  readonly held: Held | undefined;
  /** The target's type; '': its kind has no types; `undefined`: unknown. */
  readonly type?: string | undefined;
  /** Whether the target is immutable; `undefined`: unknown. */
  readonly immutable?: boolean | undefined;
  /** @see Kind.isCustom */
  readonly isCustom?: boolean;
  /** The answer to `need owner`, of all rules in `leftBy` together; `undefined`: not asked yet. */
  readonly orphanAction: OrphanAction | undefined;
  /** Whether the target is immutable, or the server refused an update (for example of the type). */
  readonly cannotUpdate: boolean;
  /** Whether the winner's takeover of the target has failed and is given up. @see shouldGiveUpTakeover */
  readonly takeoverFailed?: boolean;
}

/** Outcomes of claims by mode, if these differ from the outcome of the target. */
export type Remarks = Readonly<Partial<Record<ClaimMode, Outcome | undefined>>>;

export type Plan =
  | { readonly do: 'nothing'; readonly remarks?: Remarks }
  | ({ readonly do: 'wait'; readonly for: WaitsFor; readonly remarks?: Remarks } & Cause)
  | ({ readonly do: 'fail'; readonly remarks?: Remarks } & Cause)
  /** The name of the target is taken by an object of a user or a copy of another rule. */
  | ({ readonly do: 'conflict'; readonly remarks?: Remarks } & Cause<'Conflict'>)
  | {
      readonly do: 'create' | 'update' | 'replace';
      readonly claim: Claim;
      readonly desired: DesiredObject;
      readonly withData: boolean;
      readonly remarks?: Remarks;
    }
  | { readonly do: 'delete' }
  /** @see TargetReader.read */
  | { readonly do: 'need'; readonly fact: 'target'; readonly part?: readonly string[] }
  | { readonly do: 'need'; readonly fact: 'owner' }
  /** Needs the content of this claim's source. */
  | { readonly do: 'need'; readonly fact: 'source'; readonly claim: Claim };

export type Need = Extract<Plan, { do: 'need' }>;
/** A plan that writes the target. */
export type WritePlan = Extract<Plan, { do: 'create' | 'update' | 'replace' }>;
