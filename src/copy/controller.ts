/**
 * A controller serves the rules of one API: objects that users write. Each has a folder in `controllers/` and a line in
 * `controllers/list.ts`.
 */
import type { Reply } from '../observe/routes.ts';
import type { OnObjectChange } from './backend.ts';
import type { RuleReconciler } from './rule-reconciler.ts';

export interface Controller {
  readonly reconciler: RuleReconciler;
  /** Settles when the API of its rules is installed. Controllers without one open at once. */
  installed?(signal: AbortSignal): Promise<void>;
  /** Opens its watches, and those of namespaces. It receives no events before. */
  open(): void;
  /** Objects of all clusters: the key has the cluster. */
  readonly objectChanged?: OnObjectChange;
  /**
   * The answer to `/healthz` of the program that the controller replaces, served where the controller was started alone.
   * @param stuck the liveness checks that fail
   */
  healthz?(stuck: readonly string[]): Reply;
  stop(): void;
}
