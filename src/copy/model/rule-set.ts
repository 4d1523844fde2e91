/**
 * Says what the rules of one API mean. The operator and the commands use the same object, so that a command such as
 * `plan` reports exactly what the operator does.
 *
 * A rule set does no I/O. It reads caches that other code fills: rules, namespaces, states of sources.
 */
import type { Cause } from './cause.ts';
import type { Claim, Claimed, Owner } from './claim.ts';
import type { ResourceKey, RuleKey } from './keys.ts';
import type { Observed } from './observed.ts';

/** The part of the engine's state that an evaluation may read. */
export interface EngineView {
  /** Targets with the mark of this rule, if the mark was written for the target itself. */
  ownedBy(rule: RuleKey): Iterable<ResourceKey>;
}

/**
 * Why a rule does not copy into namespaces that its author means: an administrator's limit, no consent of a namespace,
 * or patterns that look like globs.
 */
export interface OutOfReach extends Cause {
  /**
   * `all`: the rule must not copy at all. `named`: the rule names some of these namespaces, or selects no others, or has
   * a pattern that looks like a mistake, so it is not ready. `others`: only the rule's patterns or selector match them.
   * Its author cannot know them, so the rule is ready and only reports them.
   */
  readonly part: 'all' | 'named' | 'others';
}

/** The results of an evaluation besides its claims. */
export interface Findings {
  /** Why the rule is not applied (suspended, a mistake, too many targets). Its copies stay unchanged. */
  readonly refusal?: Cause | undefined;
  readonly outOfReach?: OutOfReach | undefined;
}

export interface Evaluation extends Findings {
  readonly owner: Owner;
  /** The version of the rule that was evaluated. */
  readonly version: string;
  readonly claims: readonly Claimed[];
  /** Sources that the rule depends on, even without a claim. The engine follows (watches, polls) those listed here. */
  readonly sources: readonly ResourceKey[];
}

/** Whether a rule exists on the server, and in which version. */
export type RuleState = { readonly state: 'gone' } | { readonly state: 'there'; readonly version: string };

/**
 * What to do with a target that its owner does not claim. A claim (mode `release`) says what remains of a target that has
 * keys of other clients, too; without such keys it is deleted.
 */
export type OrphanAction = 'delete' | 'keep' | Claim;

/** What the marks of a controller on an object say. */
export interface Mark {
  /** The rule that they name. */
  readonly rule: RuleKey;
  /**
   * Of an object without a place: why it may be no copy that the original made; `null`: it looks wholly like one. Everybody
   * can forge a mark. Default: only the rule could tell. @see Claims.leftoverOf
   */
  readonly doubt?: string | null | undefined;
  /** The target keeps the keys of others (`Merged`). Only such a mark counts on an object with `MERGED_FROM`. */
  readonly merges?: true;
}

export interface RuleSet {
  /** The controller's name, with which its rule keys begin: `mirrors`. */
  readonly name: string;
  /**
   * How long Keyferry must see that nobody wants the content of a target before it deletes or empties the target, ms. If
   * a source was deleted only to be made again, the copies stay. Default: 0.
   * @param isLetGo the rule has just dropped its claim. Otherwise this process may never have seen the claim
   */
  graceMs?(rule: RuleKey, isLetGo: boolean): number;
  /**
   * Turns a rule into claims; `undefined`: it is gone. Long work pauses (`runtime/pause.ts`). A change of what it reads
   * must enqueue the rule again, also while it pauses.
   */
  evaluate(rule: RuleKey, view: EngineView): Promise<Evaluation | undefined> | Evaluation | undefined;
  /**
   * The controller's mark on an object. `undefined`: it names no rule, or the controller creates no copies of this kind or
   * in this cluster. `Claims` checks whether the mark was written for this namespace and name.
   */
  markOn(observed: Observed, target: ResourceKey): Mark | undefined;
  /** Whether to delete a target that its rule does not claim. `ruleThere`: the rule exists and is not refused. */
  orphanPolicy(rule: RuleKey, observed: Observed, ruleThere: boolean): OrphanAction;
  /** Why the rule is not ready, if neither its evaluation nor the outcomes of its claims show it: unreadable source. */
  problemOf?(rule: RuleKey): Cause | undefined;
  /**
   * Finds out whether a rule selects the object's namespace; `undefined`: it never copies objects of this kind or name.
   * Only the call of the result looks at patterns and labels.
   */
  selects?(rule: RuleKey, object: ResourceKey): (() => boolean | undefined) | undefined;
}
