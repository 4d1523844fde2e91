/**
 * The rules of one API, and what they mean. The operator and the commands ask the same object, so that a command cannot report anything but what
 * the operator would do.
 *
 * A rule set does no I/O, writes nothing, and tells nobody. It reads caches that others fill: rules, namespaces, views of sources.
 */
import type { Steps } from '../../runtime/queue/slices.ts';
import type { Cause } from './cause.ts';
import type { Claim, Owner } from './claim.ts';
import type { ResourceKey, RuleKey } from './keys.ts';
import type { Observed } from './observed.ts';

/** The part of the engine's state that an evaluation may read. */
export interface EngineView {
  /** Targets that carry the rule's mark, and were marked in their place. */
  ownedBy(rule: RuleKey): Iterable<ResourceKey>;
}

export interface Evaluation {
  readonly owner: Owner;
  /** Version of the rule that was evaluated. */
  readonly version: string;
  readonly claims: readonly Claim[];
  /** Sources that the rule depends on, claimed or not. The engine follows them as long as they are listed here. */
  readonly sources: readonly ResourceKey[];
}

/** A rule on the server. */
export type RuleState = { readonly state: 'gone' } | { readonly state: 'there'; readonly version: string };

export interface RuleSet {
  /** First part of the rule keys: `mirrors`. */
  readonly name: string;
  /** Turns a rule into claims. `undefined`: the rule does not exist. Other work runs between the steps; a change meanwhile must enqueue the rule again. */
  evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined>;
  /** Does the slow work of `evaluate` in steps (compiling patterns). */
  warmUp?(rule: RuleKey): Steps<void>;
  /**
   * The rule that this controller's marks on an object name. `undefined` for a kind or cluster in which it creates nothing.
   * `copy/plan/marks.ts` checks the place of the marks, but not the cluster.
   */
  ownerOf(observed: Observed, target: ResourceKey): RuleKey | undefined;
  /** Whether a target that its rule does not claim is deleted. `ruleThere`: the rule still exists. */
  orphanPolicy(rule: RuleKey, observed: Observed, ruleThere: boolean): 'delete' | 'keep';
  /** Why the rule is not ready, where the outcomes of its claims do not show it: a mistake in it, or a source that cannot be read. */
  problemOf?(rule: RuleKey): Cause | undefined;
}
