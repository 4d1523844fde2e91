/** The input and the output of `plan`. */
import type { Entry } from '../book/claim-book.ts';
import type { Cause } from '../model/cause.ts';
import type { Claim, ClaimMode, DesiredObject, Outcome, SourceView, WaitsFor } from '../model/claim.ts';
import type { Fingerprint } from '../model/content.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import type { Observed } from '../model/observed.ts';

/** The content that the target has at one of its versions. */
export interface Held {
  /** @see contentVersion */
  readonly version: string;
  readonly fingerprint: Fingerprint;
}

/** The action for a target that its owner does not claim. */
export type OrphanAction = 'delete' | 'keep';

/** The facts that decide which of several claims on a target wins. */
export interface Contest {
  readonly entries: readonly Entry[];
  /** The rule whose mark on the target counts (@see Claims.ownerOf), or the holder of an unmarked target. */
  readonly markedBy: RuleKey | undefined;
  readonly viewOf: (claim: Claim) => SourceView;
  /** Wall clock, ms. */
  readonly now: number;
}

/**
 * A target without metadata, which can carry no mark (an entry of Vault). Any rule may write such a target, and
 * Keyferry never deletes it. The holder is the rule whose content the target had when Keyferry last wrote or read it.
 * After a restart, no holder is known.
 */
export interface Unmarked {
  readonly holder: RuleKey | undefined;
}

export interface Facts extends Contest {
  readonly target: ResourceKey;
  /** `undefined`: the target is an object of a cluster. */
  readonly unmarked?: Unmarked | undefined;
  /** `unknown`: not in the caches, but it may exist. */
  readonly presence: 'present' | 'absent' | 'unknown';
  readonly observed: Observed | undefined;
  /** A rule that copies from the target, for messages. Only its own rule may delete such a target, to replace it. */
  readonly usedBy: string | undefined;
  /** Keyferry has deleted the target, and no watch has confirmed the deletion yet. */
  readonly goingAway: boolean;
  /** The fingerprint of the source's content at the version of its view, if it was read. */
  readonly fingerprintOf: (claim: Claim) => Fingerprint | undefined;
  readonly held: Held | undefined;
  /** The target's type, if it is known; '' for a kind without types. */
  readonly type?: string | undefined;
  /** Whether the target is immutable, if that is known. */
  readonly immutable?: boolean | undefined;
  /** @see Kind.isCustom */
  readonly isCustom?: boolean;
  /** The answer to `need owner`. */
  readonly orphanAction: OrphanAction | undefined;
  /** The target is immutable, or the server refused an update (another type). */
  readonly cannotUpdate: boolean;
  /** The takeover by the winner failed, and is given up. @see shouldGiveUpTakeover */
  readonly takeoverFailed?: boolean;
}

/** The outcomes of claims by mode, if they differ from the outcome of the target. */
export type Remarks = Readonly<Partial<Record<ClaimMode, Outcome | undefined>>>;

export type Plan =
  | { readonly do: 'nothing'; readonly remarks?: Remarks }
  | ({ readonly do: 'wait'; readonly for: WaitsFor; readonly remarks?: Remarks } & Cause)
  | ({ readonly do: 'fail'; readonly remarks?: Remarks } & Cause)
  /** An object of a user or a copy of another rule exists in the place of the target. */
  | ({ readonly do: 'conflict'; readonly remarks?: Remarks } & Cause<'Conflict'>)
  | {
      readonly do: 'create' | 'update' | 'replace';
      readonly claim: Claim;
      readonly desired: DesiredObject;
      readonly withData: boolean;
      readonly remarks?: Remarks;
    }
  | { readonly do: 'delete' }
  | { readonly do: 'need'; readonly fact: 'target' }
  | { readonly do: 'need'; readonly fact: 'owner' }
  /** The content of this claim's source. */
  | { readonly do: 'need'; readonly fact: 'source'; readonly claim: Claim };

export type Need = Extract<Plan, { do: 'need' }>;
/** A plan that writes the target. */
export type WritePlan = Extract<Plan, { do: 'create' | 'update' | 'replace' }>;
