/**
 * A controller serves the rules of one API. It has a folder in `controllers/` and an entry in `controllers/list.ts`.
 */
import type { KeyedQueue } from '../../runtime/queue/keyed-queue.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { Cause } from '../model/cause.ts';
import type { Undeleted } from '../model/claim.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import type { Entry } from '../book/claim-book.ts';
import type { Findings, RuleSet, RuleState } from '../model/rule-set.ts';

export interface Controller {
  /** `undefined`: the controller copies nothing. It then has no rules and no claims, but its own work. */
  readonly reconciler?: RuleReconciler;
  readonly work?: OwnWork;
  /** Settles when the API of the rules is installed. Controllers without this method open at once. */
  installed?(signal: AbortSignal): Promise<void>;
  /** Names the missing API and how to install it. Set only if the process is not ready without this API. */
  readonly missing?: string | undefined;
  /** Opens the watches of the controller, and the watch of namespaces. */
  open(): void;
  stop?(): void;
}

/** A queue with its name, for metrics and for the check that no worker is stuck. */
export interface NamedQueue {
  readonly name: string;
  readonly queue: Pick<KeyedQueue, 'metrics' | 'idle'>;
  /** Its workers pause in long work, so a long run is not stuck. */
  readonly pauses?: true;
}

/** Work of a controller outside the loops of the engine, in its own queues. */
export interface OwnWork {
  /** Called when this process has become the leader and may write. */
  start(): void;
  /** Ends the work within `drainMs`. */
  drain(drainMs: number): Promise<void>;
  /** Yields which rules are ready and which are not. Rules that are ready may be left out. */
  readiness(): Iterable<RuleReadiness>;
  readonly queues: readonly NamedQueue[];
}

/** Whether a rule is ready, which means that everything it requests is done. */
export interface RuleReadiness {
  readonly rule: RuleKey;
  /** Why the rule is not ready; `undefined`: it is ready. */
  readonly cause: Cause | undefined;
}

/** The operator's work for the rules of one controller besides copying: reads, finalizers and status. */
export interface RuleReconciler {
  readonly rules: RuleSet;
  /** Called after an evaluation of a rule, before its claims are put into the book and its sources are followed. */
  evaluated?(rule: RuleKey): void;
  /** Settles when the caches have all that `RuleSet.evaluate` reads. A result makes the rule run again later. */
  listed?(rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined | void>;
  /** Says from caches alone whether `prepare` has to be called. */
  needsPreparation?(rule: RuleKey): boolean;
  /** Updates the rule object (finalizer, defaults). No target waits for it. If it throws, it is called again later. */
  prepare?(rule: RuleKey, signal: AbortSignal): Promise<void>;
  /** Reads the rule from the server. A change of the target's namespace that concerns the rule counts as its change. */
  getLive(rule: RuleKey, target: ResourceKey, signal: AbortSignal): Promise<RuleState>;
  /**
   * Writes the outcomes of the rule's claims to its status or annotations. Called after a change, at most once a
   * second.
   * @param entries the claims of the rule
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
  /** Number of writes to the rule's targets. */
  readonly writes: number;
  /** The version of the rule that its claims were made from; it may be newer now. `undefined`: never evaluated. */
  readonly evaluated: string | undefined;
  /** The copies that the rule no longer wants, and that could not be deleted. */
  readonly undeleted: readonly Undeleted[];
  /** Set if `prepare` or `evaluate` fails repeatedly, or with an error that is not transient. */
  readonly failure?: Cause | undefined;
}
