/**
 * The meaning of the rules of one API. The operator and the commands use the same object, so that a command reports
 * exactly the actions of the operator.
 *
 * A rule set does no I/O and writes nothing. It reads caches that others fill: rules, namespaces, views of sources.
 */
import type { Steps } from '../../runtime/queue/slices.ts';
import type { Cause } from './cause.ts';
import type { Claimed, Owner } from './claim.ts';
import type { ResourceKey, RuleKey } from './keys.ts';
import type { Observed } from './observed.ts';

/** The part of the engine's state that an evaluation may read. */
export interface EngineView {
  /** Targets that carry the rule's mark in the place that it was written for. */
  ownedBy(rule: RuleKey): Iterable<ResourceKey>;
}

/** The number of targets that a rule requests, for the limits. */
export interface Demand {
  readonly namespace: string;
  /** Orders rules by age, as `Owner.rank`. */
  readonly rank: string;
  readonly count: number;
  /** Whether the limits allow these targets besides those of older rules. */
  readonly isAdmitted: boolean;
}

/** Why a rule must not copy into namespaces that it selects: a limit of an administrator, or no consent. */
export interface OutOfReach extends Cause {
  /**
   * `all`: the rule must not copy at all. `named`: the rule names some of these namespaces, or has no others, so it is
   * not ready. `others`: only its patterns or its selector find them. Its author cannot know them, so this is a remark.
   */
  readonly part: 'all' | 'named' | 'others';
}

/** The results of an evaluation besides claims. */
export interface Findings {
  /** Why the rule is not applied: it is suspended, has a mistake or too many targets. Its copies stay unchanged. */
  readonly refusal?: Cause | undefined;
  readonly outOfReach?: OutOfReach | undefined;
}

export interface Evaluation extends Findings {
  readonly owner: Owner;
  /** Version of the rule that was evaluated. */
  readonly version: string;
  readonly claims: readonly Claimed[];
  /** Sources that the rule depends on, even without a claim. The engine follows them while they are listed here. */
  readonly sources: readonly ResourceKey[];
  /** The demand on the limits of rules; `undefined`: none. */
  readonly demand?: Demand | undefined;
}

/** A rule on the server. */
export type RuleState = { readonly state: 'gone' } | { readonly state: 'there'; readonly version: string };

export interface RuleSet {
  /** First part of the rule keys: `mirrors`. */
  readonly name: string;
  /** The limits of the rules. They record the demand of each evaluation when its claims count. */
  readonly limits?: { readonly record: (rule: RuleKey, demand: Demand | undefined) => void };
  /** Turns a rule into claims; `undefined`: it is gone. A change between the steps must enqueue the rule again. */
  evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined>;
  /** Does the slow work of `evaluate` in steps (compiling patterns). */
  warmUp?(rule: RuleKey): Steps<void>;
  /**
   * The rule that this controller's marks on an object name. `undefined` for a kind or cluster in which the controller
   * creates nothing. `Claims` checks the place of the marks, but not the cluster.
   */
  ownerOf(observed: Observed, target: ResourceKey): RuleKey | undefined;
  /** Whether to delete a target that its rule does not claim. `ruleThere`: the rule exists, and is not refused. */
  orphanPolicy(rule: RuleKey, observed: Observed, ruleThere: boolean): 'delete' | 'keep';
  /** Why the rule is not ready, if neither its evaluation nor its claims' outcomes show it: an unreadable source. */
  problemOf?(rule: RuleKey): Cause | undefined;
  /** Whether a rule selects the object's namespace; `undefined`: the object cannot be a copy, by its kind or name. */
  selects?(rule: RuleKey, object: ResourceKey): boolean | undefined;
}
