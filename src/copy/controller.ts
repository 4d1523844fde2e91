/**
 * A controller serves the rules of one API: objects that users write. Each has a folder in `controllers/` and a line in
 * `controllers/list.ts`.
 */
import type { Reply } from '../observe/routes.ts';
import type { OnObjectChange } from './backend.ts';
import type { NamedQueue } from './engine.ts';
import type { RuleReadiness, RuleReconciler } from './rule-reconciler.ts';

export interface Controller {
  /** `undefined`: the controller does not copy. It has no rules and claims, and queues of its own. */
  readonly reconciler?: RuleReconciler;
  /** Settles when the API of its rules is installed. Controllers without one open at once. */
  installed?(signal: AbortSignal): Promise<void>;
  /** Opens its watches, and those of namespaces. It receives no events before. */
  open(): void;
  /** This process is the one that writes: starts the work of its own queues. */
  start?(): void;
  /** Ends the work of its own queues within `drainMs`. */
  drain?(drainMs: number): Promise<void>;
  /** Of its rules, if it has no reconciler. Those that are ready may be missing. */
  readonly readiness?: () => Iterable<RuleReadiness>;
  /** Its own queues. */
  readonly queues?: readonly NamedQueue[];
  /** Objects of all clusters: the key has the cluster. */
  readonly objectChanged?: OnObjectChange;
  /**
   * The answer to `/healthz` of the program that the controller replaces, served where the controller was started alone.
   * @param stuck the liveness checks that fail
   */
  healthz?(stuck: readonly string[]): Reply;
  stop(): void;
}
