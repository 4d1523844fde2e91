/**
 * Whether a cluster can be used, as its watches show.
 *
 *   reachable ──a watch failed, and is not connected for 3 s or was never listed──▶ unreachable ──all watches are connected──▶ reachable
 *
 * It looks at the watches after a failure, and then regularly until all are connected. A cluster without failures costs nothing.
 */
import type { Clock, Timer } from '../../../runtime/clock.ts';
import type { BackendWatch } from '../../engine/backend.ts';
import { type Cause, sameCause } from '../../model/cause.ts';
import { causeOfWatches } from './unreachable.ts';

/** `undefined`: the cluster can be used again. */
export type OnReachableChange = (unreachable: Cause | undefined) => void;

export interface ReachabilityOptions {
  /** Name of the cluster. */
  readonly cluster: string;
  readonly clock: Clock;
  readonly watches: () => readonly BackendWatch[];
}

/** Between two looks after a failure, ms. */
const LOOK_MS = 500;

export class Reachability {
  readonly #options: ReachabilityOptions;
  readonly #handlers: OnReachableChange[] = [];
  #cause: Cause | undefined;
  #timer: Timer | undefined;

  constructor(options: ReachabilityOptions) {
    this.#options = options;
  }

  /** Why the cluster cannot be used. */
  get cause(): Cause | undefined {
    return this.#cause;
  }

  onChange(handler: OnReachableChange): void {
    this.#handlers.push(handler);
  }

  /** A watch has failed, and will be opened again. */
  watchFailed(): void {
    this.#look();
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #look(): void {
    const { cluster, clock, watches } = this.#options;
    this.#timer?.cancel();
    const now = watches();
    const isOver = now.every(({ connected, cause }) => connected || cause === undefined);
    this.#timer = isOver ? undefined : clock.setTimeout(() => this.#look(), LOOK_MS, { unref: true });
    this.#set(causeOfWatches(cluster, now));
  }

  #set(cause: Cause | undefined): void {
    if (sameCause(this.#cause, cause)) return;
    this.#cause = cause;
    for (const handler of this.#handlers) handler(cause);
  }
}
