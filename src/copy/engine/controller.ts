/**
 * A controller serves the rules of one API: objects that users write. Each has a folder in `controllers/` and a line in
 * `controllers/list.ts`.
 */
import type { NamedQueue } from './engine.ts';
import type { RuleReadiness, RuleReconciler } from './rule-reconciler.ts';

export interface Controller {
  /** `undefined`: the controller does not copy. It has no rules and claims, but work of its own. */
  readonly reconciler?: RuleReconciler;
  readonly work?: OwnWork;
  /** Settles when the API of its rules is installed. Controllers without one open at once. */
  installed?(signal: AbortSignal): Promise<void>;
  /** Opens its watches, and those of namespaces. */
  open(): void;
  stop(): void;
}

/** Work outside the loops of the engine, with queues of its own. */
export interface OwnWork {
  /** This process is the one that writes. */
  start(): void;
  /** Ends the work within `drainMs`. */
  drain(drainMs: number): Promise<void>;
  /** Of its rules. Those that are ready may be missing. */
  readiness(): Iterable<RuleReadiness>;
  readonly queues: readonly NamedQueue[];
}
