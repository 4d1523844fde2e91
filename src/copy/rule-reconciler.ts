/** What a dialect gives the engine: rules in, claims out, and somebody to tell what became of them. */
import type { RunResult } from '../runtime/queue/keyed-queue-options.ts';
import type { Steps } from '../runtime/slices.ts';
import type { Claim, Owner } from './model/claim.ts';
import type { Flow } from './plan/cycles.ts';
import type { Failure } from './model/failure.ts';
import type { Entry } from './plan/claim-book.ts';
import type { ResourceKey, RuleKey } from './model/keys.ts';
import type { Observed } from './model/observed.ts';

/** What the engine knows that a system may ask for while it evaluates a rule. */
export interface EngineView {
  /** Targets that carry the rule's mark, and were marked in their place. */
  ownedBy(rule: RuleKey): Iterable<ResourceKey>;
}

export interface Evaluation {
  readonly owner: Owner;
  /** Version of the rule that was evaluated. */
  readonly version: string;
  readonly claims: readonly Claim[];
  /** What the rule depends on, also while it has no claims: followed as long as it is named here. */
  readonly sources: readonly ResourceKey[];
}

/** What a live look at a rule says. */
export type RuleState = { readonly state: 'gone' } | { readonly state: 'there'; readonly version: string };

export interface RuleReconciler {
  /** First part of the rule keys: `mirrors`. */
  readonly name: string;
  /**
   * Turns a rule into claims, from caches alone. `undefined`: there is no such rule (any more). In steps, between which everybody else
   * has a turn; what happens meanwhile to what it depends on has to touch the rule again.
   */
  evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined>;
  /** Does in steps what `prepare` and `evaluate` would else do at once, and takes long (compiling patterns). */
  warmUp?(rule: RuleKey): Steps<void>;
  /** Brings the rule object itself into shape before it is evaluated (a finalizer, defaults). Throws to be called again. */
  prepare?(rule: RuleKey, signal: AbortSignal): Promise<void>;
  /** The rule that the marks of this system on an object name. None for a kind or a cluster in which it makes nothing. @see ownerByMark */
  ownerOf(observed: Observed, target: ResourceKey): RuleKey | undefined;
  /** Asks the server, not the cache. */
  getLive(rule: RuleKey, signal: AbortSignal): Promise<RuleState>;
  /** What is to become of a target that its rule does not want: `keep` leaves it for ever. `ruleThere`: the rule still exists. */
  orphanPolicy(rule: RuleKey, observed: Observed, ruleThere: boolean): 'delete' | 'keep';
  /**
   * Writes what became of the rule's claims where its user sees it. Called after something changed, at most once a second.
   * @param entries the rule's claims
   */
  updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    news: RuleNews,
    signal: AbortSignal,
  ): Promise<RunResult | undefined>;
}

/** What has happened to a rule's targets since the last successful report. */
export interface RuleNews {
  /** Writes that were done for it. */
  readonly writes: number;
  /** Version of the rule that its claims were made from, if it was evaluated. By now the rule may say something else. */
  readonly evaluated: string | undefined;
  /** The rule cannot be brought into shape (`prepare`) or evaluated, and it does not seem to pass. */
  readonly failure?: Failure | undefined;
}

/** A backend in which targets live. */
export interface TargetBackend {
  reconcile(target: ResourceKey, signal: AbortSignal): Promise<RunResult | undefined>;
  /** Targets of different lanes do not wait for each other; without it all are in one lane with the rest. */
  laneOf?(target: ResourceKey): string;
  /** Whether a claim would write what its source holds into its target, as things are. Without I/O. */
  flowOf(claim: Claim): Flow;
  /** A target's run has failed for the `attempt`-th time in a row. */
  failed(target: ResourceKey, error: unknown): void;
}
