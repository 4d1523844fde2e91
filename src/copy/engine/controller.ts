/** A controller serves the rules of one API. It has a folder in `controllers/` and a line in `controllers/list.ts`. */
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
  /** Settles when the API of the rules is installed. Controllers without this method open at once. */
  installed?(signal: AbortSignal): Promise<void>;
  /** The API that the controller waits for, and how to install it; set if the process is not ready without this API. */
  readonly missing?: string | undefined;
  /** Opens the watches of the controller, and that of namespaces. */
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
  /** Called when this process is the leader, and may write. */
  start(): void;
  /** Ends the work within `drainMs`. */
  drain(drainMs: number): Promise<void>;
  /** Whether the rules are ready. Rules that are ready may be left out. */
  readiness(): Iterable<RuleReadiness>;
  readonly queues: readonly NamedQueue[];
}

/** Whether a rule is ready: everything that it requests is done. */
export interface RuleReadiness {
  readonly rule: RuleKey;
  /** Why the rule is not ready; `undefined`: it is ready. */
  readonly cause: Cause | undefined;
}

/** Whether the targets of a rule wait for its preparation (the finalizer). `first`: they do. `beside`: they do not. */
export type Preparation = 'first' | 'beside';

/** The operator's work for the rules of one controller besides copying: reads, finalizers and status. */
export interface RuleReconciler {
  readonly rules: RuleSet;
  /** Called when a rule was evaluated, before its claims are in the book and its sources are followed. */
  evaluated?(rule: RuleKey): void;
  /** Settles when the caches have all that `RuleSet.evaluate` reads. A result makes the rule run once more, later. */
  listed?(rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined | void>;
  /** Whether `prepare` has something to do, from caches alone. */
  preparationOf?(rule: RuleKey): Preparation | undefined;
  /** Updates the rule object (finalizer, defaults) while evaluations go on. If it throws, it is called again later. */
  prepare?(rule: RuleKey, signal: AbortSignal): Promise<void>;
  /** Reads the rule from the server. It counts as changed if the namespace of `target` has changed for it. */
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

/** The findings of the last evaluation of a rule, and the changes since its last successful status update. */
export interface RuleProgress extends Findings {
  /** Number of writes for the rule. */
  readonly writes: number;
  /** Version of the rule that its claims were made from, if it was evaluated. The rule may have changed since. */
  readonly evaluated: string | undefined;
  /** Set if `prepare` or `evaluate` fails repeatedly, or with an error that is not transient. */
  readonly failure?: Cause | undefined;
}
