/**
 * Targets in a cluster that this process does not run in.
 *
 * While the cluster cannot be used, or its first lists are not complete, they wait without a request. So no worker hangs, and the rules report the
 * cause at once. When the cluster answers again, all of them are tried.
 */
import type { RunResult } from '../../../runtime/queue/keyed-queue-options.ts';
import type { TargetWriter } from '../../engine/backend.ts';
import type { Cause } from '../../model/cause.ts';
import type { ObjectKey } from '../../model/keys.ts';
import type { Flows } from '../../book/cycles.ts';
import type { TargetReconciler } from './target-reconciler.ts';
import { isUnanswered, remoteWait } from '../watch/unreachable.ts';

export interface RemoteTargetsOptions {
  /** Name of the cluster. */
  readonly cluster: string;
  readonly targets: TargetReconciler;
  /** @see Cluster.unreachable */
  readonly unreachable: () => Cause | undefined;
  /** The first lists of the cluster are complete. */
  readonly isListed: () => boolean;
  /** Enqueues a target without the rest of its back-off. */
  readonly retry: (target: ObjectKey) => void;
}

export class RemoteTargets implements TargetWriter {
  readonly #options: RemoteTargetsOptions;
  readonly #waiting = new Set<ObjectKey>();

  constructor(options: RemoteTargetsOptions) {
    this.#options = options;
  }

  /** The cause has changed, or the first lists are complete: tries the waiting targets again, or reports the cause. */
  retryWaiting(): void {
    const { unreachable, isListed, retry } = this.#options;
    const cause = unreachable();
    if (cause !== undefined) for (const target of this.#waiting) this.#report(target, cause);
    else if (isListed()) for (const target of this.#waiting) retry(target);
  }

  async reconcile(target: ObjectKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const { targets, unreachable, isListed } = this.#options;
    const cause = unreachable();
    if (cause !== undefined || !isListed()) {
      this.#waiting.add(target);
      if (cause !== undefined) this.#report(target, cause);
      return undefined;
    }
    this.#waiting.delete(target);
    try {
      return await targets.reconcile(target, signal);
    } catch (error) {
      if (isUnanswered(error)) this.#waiting.add(target);
      throw error;
    }
  }

  flowsInto(target: ObjectKey): Flows {
    return this.#options.targets.flowsInto(target);
  }

  failed(target: ObjectKey, error: unknown): void {
    const { cluster, targets } = this.#options;
    const wait = remoteWait(cluster, error);
    if (wait === undefined) targets.failed(target, error);
    else targets.report(target, wait);
  }

  #report(target: ObjectKey, cause: Cause): void {
    this.#options.targets.report(target, { state: 'waiting', for: 'target', ...cause });
  }
}
