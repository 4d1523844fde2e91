/**
 * A controller serves the rules of one API. It has a folder in `controllers/` and an entry in `controllers/list.ts`. It
 * says what its rules mean (`rules`, pure), and what users are told (`report`, pure); the engine does the rest.
 */
import type { ManagedFieldsEntry } from '../../kube/api.ts';
import type { EventInput } from '../../kube/event-recorder.ts';
import type { KeyedQueue } from '../../runtime/queue/keyed-queue.ts';
import type { Entry } from '../book/claim-book.ts';
import type { Cause } from '../model/cause.ts';
import type { Undeleted } from '../model/claim.ts';
import type { RuleKey } from '../model/keys.ts';
import type { Kind } from '../model/kind.ts';
import type { Findings, RuleSet } from '../model/rule-set.ts';
import type { RuleStatus } from './life/condition.ts';
import type { Deletion } from './life/deletions.ts';
import type { KeptRules, RuleObject } from './life/rule-store.ts';

/** The kind of the objects of rules, and its path on the API server. */
export type RuleKind = Pick<Kind, 'kind' | 'apiVersion' | 'groupPath' | 'plural'>;

export interface Controller<Rule extends RuleObject = RuleObject, Status extends RuleStatus = RuleStatus> {
  readonly rules: RuleSet;
  /** The rules as the watches have brought them. */
  readonly store: KeptRules<Rule>;
  /** The kind of the object of a rule. */
  readonly kindOf: (rule: RuleKey) => RuleKind;
  /**
   * Opens the watches. Each change of a rule must enqueue it.
   * @param signal ends at the stop of the process
   * @returns settles when the caches have all that `RuleSet.evaluate` reads; `undefined`: it reads nothing that is awaited
   */
  open(signal: AbortSignal): Promise<unknown> | undefined;
  /** What must be written into the object of the rule now, before its status; `undefined`: nothing. */
  due?(key: RuleKey, rule: Rule): RuleChange | undefined;
  /**
   * What users are told of the rule; `undefined`: nothing yet. If the rule is gone, the controller forgets it. What it
   * remarks then is told if the object is still there.
   */
  report(facts: RuleFacts<Rule, Status> | GoneRule): Report<Status> | undefined;
  readonly work?: OwnWork;
}

/** Work of a controller outside the loops of the engine, in its own queues. */
export interface OwnWork {
  /** Called when this process has become the leader and may write. */
  start(): void;
  /** Ends the work within `drainMs`. */
  drain(drainMs: number): Promise<void>;
  readonly queues: readonly NamedQueue[];
  /** What it lacks at present, so that the process is not ready; `undefined`: nothing. */
  readonly lacks?: string | undefined;
}

/** A queue with its name, for metrics and for the check that no worker is stuck. */
export interface NamedQueue {
  readonly name: string;
  readonly queue: Pick<KeyedQueue, 'metrics'>;
  /** Its workers pause in long work, or wait for servers that users name. So a long run is not stuck. */
  readonly pauses?: true | undefined;
}

/** Changes of the object of a rule. */
export interface RuleChange {
  /** Added to the finalizers. Until it is there, no status is written. */
  readonly finalizer?: string | undefined;
  /** The finalizers that go when `finalizer` is added. */
  readonly replaces?: readonly string[];
  /** A merge patch of the spec. If the server refuses it, only the finalizer is written from then on. */
  readonly spec?: object | undefined;
  /** All managed fields. */
  readonly managedFields?: readonly ManagedFieldsEntry[] | undefined;
}

/** The findings of the last evaluation of a rule, and the changes since its last report. */
export interface RuleProgress extends Findings {
  /** Number of writes to the rule's targets. */
  readonly writes: number;
  /** The version of the rule that its claims were made from; it may be newer now. `undefined`: never evaluated. */
  readonly evaluated: string | undefined;
  /** The copies that the rule no longer wants, and that could not be deleted. */
  readonly undeleted: readonly Undeleted[];
  /** Set if a write of what is due or `evaluate` fails repeatedly, or with an error that is not transient. */
  readonly failure?: Cause | undefined;
}

/** All that a report says something of. */
export interface RuleFacts<Rule = RuleObject, Status = RuleStatus> extends RuleProgress {
  readonly key: RuleKey;
  readonly rule: Rule;
  /** The claims of this version of the rule, with their outcomes. Empty if it was not evaluated yet (`failure`). */
  readonly claims: readonly Entry[];
  /** Set while the rule is being deleted. */
  readonly deletion: Deletion | undefined;
  /** The last status that was written or read. */
  readonly previous: Status;
  /** Wall clock, ms. */
  readonly now: number;
}

export interface GoneRule {
  readonly key: RuleKey;
  readonly rule: undefined;
}

/** An event about a rule. */
export type RuleEvent = Omit<EventInput, 'subject'>;

/** What is told of a rule, and what follows. */
export interface Report<Status extends RuleStatus = RuleStatus> {
  /** Written if it differs from the one that the rule has. */
  readonly status?: Status;
  /** What has changed since `previous`. */
  readonly events?: readonly RuleEvent[];
  /** What is so now. Each is recorded once as an event, as long as it is so. */
  readonly remarks?: readonly RuleEvent[];
  /** The finalizers that the object no longer needs. */
  readonly removeFinalizers?: readonly string[];
  /** When another report is needed, ms from now. */
  readonly againMs?: number | undefined;
  /** Called when the server has the status. */
  readonly written?: () => void;
}

/** Whether a rule is ready, which means that everything it requests is done. */
export interface RuleReadiness {
  readonly rule: RuleKey;
  /** Why the rule is not ready; `undefined`: it is ready. */
  readonly cause: Cause | undefined;
}
