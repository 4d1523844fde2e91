/**
 * The rules of one API, and what they mean. The operator and the commands ask the same object, so that a command cannot report anything but what
 * the operator would do.
 *
 * A rule set does no I/O, writes nothing, and tells nobody. It reads caches that others fill: rules, namespaces, views of sources.
 */
import type { Steps } from '../../runtime/queue/slices.ts';
import type { Cause } from './cause.ts';
import type { Claimed, Owner } from './claim.ts';
import type { ResourceKey, RuleKey } from './keys.ts';
import type { Observed } from './observed.ts';

/** The part of the engine's state that an evaluation may read. */
export interface EngineView {
  /** Targets that carry the rule's mark, and were marked in their place. */
  ownedBy(rule: RuleKey): Iterable<ResourceKey>;
}

/** The targets that a rule asks its limits for. */
export interface Demand {
  readonly namespace: string;
  /** Orders rules by age, as `Owner.rank`. */
  readonly rank: string;
  readonly count: number;
  /** Whether the limits allow them beside the targets of older rules. */
  readonly isAdmitted: boolean;
}

/** What a rule asks for and must not copy: by a limit of an administrator, or without a consent. */
export interface OutOfReach extends Cause {
  /**
   * `all`: the rule must not copy at all. `named`: it names some of these namespaces, or nothing else is left, so it is not ready. `others`: only
   * its patterns or its selector find them. Its author cannot know them, so this is a remark.
   */
  readonly part: 'all' | 'named' | 'others';
}

/** What an evaluation shows besides claims. */
export interface Findings {
  /** Why the rule is not applied: it is suspended, has a mistake or too many targets. Its copies stay as they are. */
  readonly refusal?: Cause | undefined;
  readonly outOfReach?: OutOfReach | undefined;
}

export interface Evaluation extends Findings {
  readonly owner: Owner;
  /** Version of the rule that was evaluated. */
  readonly version: string;
  readonly claims: readonly Claimed[];
  /** Sources that the rule depends on, claimed or not. The engine follows them as long as they are listed here. */
  readonly sources: readonly ResourceKey[];
  /** What counts against the limits of rules; `undefined`: nothing. */
  readonly demand?: Demand | undefined;
}

/** A rule on the server. */
export type RuleState = { readonly state: 'gone' } | { readonly state: 'there'; readonly version: string };

export interface RuleSet {
  /** First part of the rule keys: `mirrors`. */
  readonly name: string;
  /** The limits of its rules. They take the demand of each evaluation when its claims count. */
  readonly limits?: { readonly record: (rule: RuleKey, demand: Demand | undefined) => void };
  /** Turns a rule into claims. `undefined`: the rule does not exist. Other work runs between the steps; a change meanwhile must enqueue the rule again. */
  evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined>;
  /** Does the slow work of `evaluate` in steps (compiling patterns). */
  warmUp?(rule: RuleKey): Steps<void>;
  /**
   * The rule that this controller's marks on an object name. `undefined` for a kind or cluster in which it creates nothing.
   * `copy/plan/marks.ts` checks the place of the marks, but not the cluster.
   */
  ownerOf(observed: Observed, target: ResourceKey): RuleKey | undefined;
  /** Whether a target that its rule does not claim is deleted. `ruleThere`: the rule still exists, and is not refused. */
  orphanPolicy(rule: RuleKey, observed: Observed, ruleThere: boolean): 'delete' | 'keep';
  /** Why the rule is not ready, where neither its evaluation nor the outcomes of its claims show it: a source that cannot be read. */
  problemOf?(rule: RuleKey): Cause | undefined;
  /** Whether a rule selects the namespace of an object of the kind and name of its copies; `undefined`: they have others. */
  selects?(rule: RuleKey, object: ResourceKey): boolean | undefined;
}
