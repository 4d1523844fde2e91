/** Turns the rules of one controller into claims, and writes their status. */
import type { RunResult } from '../runtime/queue/keyed-queue-options.ts';
import type { Steps } from '../runtime/slices.ts';
import type { Cause } from './model/cause.ts';
import type { Claim, Owner } from './model/claim.ts';
import type { Entry } from './plan/claim-book.ts';
import type { ResourceKey, RuleKey } from './model/keys.ts';
import type { Observed } from './model/observed.ts';

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

/** Whether a rule is ready: all that it asks for is done. */
export interface RuleReadiness {
  readonly rule: RuleKey;
  /** Why it is not ready; `undefined`: it is. */
  readonly cause: Cause | undefined;
}

/** What has to be done to a rule. `first`: until then its targets stay unchanged. `beside`: they need not wait. */
export type Preparation = 'first' | 'beside';

export interface RuleReconciler {
  /** First part of the rule keys: `mirrors`. */
  readonly name: string;
  /**
   * Turns a rule into claims, from caches alone. `undefined`: the rule does not exist. Other work runs between the steps; a change
   * meanwhile must enqueue the rule again.
   */
  evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined>;
  /** Does the slow work of `evaluate` in steps (compiling patterns). */
  warmUp?(rule: RuleKey): Steps<void>;
  /** Settles when the caches have all that `evaluate` reads. With a result the rule runs once more after that time. */
  listed?(rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined | void>;
  /** Whether `prepare` has something to do, from caches alone. */
  preparationOf?(rule: RuleKey): Preparation | undefined;
  /** Updates the rule object (a finalizer, defaults), beside evaluations. If it throws, it is called again after a back-off. */
  prepare?(rule: RuleKey, signal: AbortSignal): Promise<void>;
  /**
   * The rule that this controller's marks on an object name. `undefined` for a kind or cluster in which it creates nothing.
   * `copy/plan/marks.ts` checks the place of the marks, but not the cluster.
   */
  ownerOf(observed: Observed, target: ResourceKey): RuleKey | undefined;
  /** Reads the rule from the server, not from the cache. */
  getLive(rule: RuleKey, signal: AbortSignal): Promise<RuleState>;
  /** Whether a target that its rule does not claim is deleted. `ruleThere`: the rule still exists. */
  orphanPolicy(rule: RuleKey, observed: Observed, ruleThere: boolean): 'delete' | 'keep';
  /** Why the rule is not ready, where the outcomes of its claims do not show it: a mistake in it, or a source that cannot be read. */
  problemOf?(rule: RuleKey): Cause | undefined;
  /**
   * Writes the outcome of the rule's claims to its status or annotations. Called after a change, at most once a second.
   * @param entries the rule's claims
   */
  updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    progress: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined>;
}

/** Changes of a rule since its last successful status update. */
export interface RuleProgress {
  /** Writes for the rule. */
  readonly writes: number;
  /** Version of the rule that its claims were made from, if it was evaluated. The rule may have changed since. */
  readonly evaluated: string | undefined;
  /** `prepare` or `evaluate` fails repeatedly, or with an error that is not transient. */
  readonly failure?: Cause | undefined;
}
