/**
 * A controller serves the rules of one API: objects that users write. Each has a folder in `controllers/` and a line in
 * `controllers/list.ts`.
 */
import type { KeyedQueue } from '../../runtime/queue/keyed-queue.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { Cause } from '../model/cause.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import type { Entry } from '../book/claim-book.ts';
import type { Findings, RuleSet, RuleState } from '../model/rule-set.ts';

export interface Controller {
  /** `undefined`: the controller does not copy. It has no rules and claims, but work of its own. */
  readonly reconciler?: RuleReconciler;
  readonly work?: OwnWork;
  /** Settles when the API of its rules is installed. Controllers without one open at once. */
  installed?(signal: AbortSignal): Promise<void>;
  /** The API that it waits for, and how to install it, where the process is not ready without. */
  readonly missing?: string | undefined;
  /** Opens its watches, and those of namespaces. */
  open(): void;
  stop?(): void;
}

/** A queue, for metrics and the check of liveness. */
export interface NamedQueue {
  readonly name: string;
  readonly queue: Pick<KeyedQueue, 'metrics' | 'idle'>;
}

/** Work outside the loops of the engine, with queues of its own. */
export interface OwnWork {
  /** This process is the one that writes. */
  start(): void;
  /** Ends the work within `drainMs`. */
  drain(drainMs: number): Promise<void>;
  /** Whether its rules are ready. Rules that are ready may be missing. */
  readiness(): Iterable<RuleReadiness>;
  readonly queues: readonly NamedQueue[];
}

/** Whether a rule is ready: all that it asks for is done. */
export interface RuleReadiness {
  readonly rule: RuleKey;
  /** Why it is not ready; `undefined`: it is. */
  readonly cause: Cause | undefined;
}

/** What has to be done to a rule. `first`: until then its targets stay unchanged. `beside`: they need not wait. */
export type Preparation = 'first' | 'beside';

/** What the operator does for the rules of one controller, besides copying: reads, finalizers and status around their meaning. */
export interface RuleReconciler {
  readonly rules: RuleSet;
  /** A rule was evaluated. Called before its claims are in the book, and before its sources are followed. */
  evaluated?(rule: RuleKey): void;
  /** Settles when the caches have all that `RuleSet.evaluate` reads. With a result the rule runs once more after that time. */
  listed?(rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined | void>;
  /** Whether `prepare` has something to do, from caches alone. */
  preparationOf?(rule: RuleKey): Preparation | undefined;
  /** Updates the rule object (a finalizer, defaults), beside evaluations. If it throws, it is called again after a back-off. */
  prepare?(rule: RuleKey, signal: AbortSignal): Promise<void>;
  /** Reads the rule from the server, not from the cache. @param target the rule may not be evaluated yet for changes of its namespace */
  getLive(rule: RuleKey, target: ResourceKey, signal: AbortSignal): Promise<RuleState>;
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

/** What the last evaluation of a rule has shown, and the changes since its last successful status update. */
export interface RuleProgress extends Findings {
  /** Writes for the rule. */
  readonly writes: number;
  /** Version of the rule that its claims were made from, if it was evaluated. The rule may have changed since. */
  readonly evaluated: string | undefined;
  /** `prepare` or `evaluate` fails repeatedly, or with an error that is not transient. */
  readonly failure?: Cause | undefined;
}
