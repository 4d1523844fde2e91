/**
 * The queues of targets: each backend has its own, one for each of its lanes (in Vault, for each server), so that no backend waits for
 * another. They accept keys from the beginning, and start when their backend is ready.
 */
import type { KeyedQueue } from '../../runtime/queue/keyed-queue.ts';
import type { KeyedQueueOptions, RunResult, StopOptions } from '../../runtime/queue/keyed-queue-options.ts';
import { QueueLanes } from '../../runtime/queue/queue-lanes.ts';
import type { GroupOf } from '../../runtime/queue/turns.ts';
import type { Backend } from './backend.ts';
import { backendOf, namespaceOf, type ResourceKey } from '../model/keys.ts';

export interface TargetQueuesOptions extends Required<
  Pick<KeyedQueueOptions, 'clock' | 'retryAfterMs' | 'retryMaxMsOf'>
> {
  /** The namespace of the rule of a target. It may change. @see TargetQueueing.shareBy */
  readonly groupOf: GroupOf<ResourceKey>;
  readonly onError: (backend: Backend, ...failure: Parameters<KeyedQueueOptions<ResourceKey>['onError']>) => void;
}

/** @param since see `Worker` in `runtime/queue/keyed-queue-options.ts` */
type TargetWorker = (
  backend: Backend,
  target: ResourceKey,
  signal: AbortSignal,
  since: number,
) => Promise<RunResult | undefined>;

interface BackendQueues {
  readonly backend: Backend;
  readonly lanes: QueueLanes<ResourceKey>;
}

export class TargetQueues {
  readonly #options: TargetQueuesOptions;
  readonly #backends = new Map<string, BackendQueues>();
  #stopped = false;

  constructor(options: TargetQueuesOptions) {
    this.#options = options;
  }

  add(backend: Backend): void {
    const { clock, retryAfterMs, retryMaxMsOf, groupOf, onError } = this.#options;
    const { name, concurrency, laneOf, shareBy, ...limits } = backend.queueing;
    const lanes = new QueueLanes<ResourceKey>({
      name,
      concurrency,
      clock,
      ...(shareBy === 'rule' ? { groupOf, groupsChange: true } : { groupOf: namespaceOf }),
      retryAfterMs: (error) => retryAfterMs(error) ?? limits.retryAfterMs(error),
      retryMaxMsOf: (error) => retryMaxMsOf(error) ?? limits.longestWaitMs(error),
      onError: (...failure) => {
        onError(backend, ...failure);
      },
    });
    // A single lane exists from the beginning, for the metrics.
    if (laneOf === undefined) lanes.of('');
    this.#backends.set(backend.name, { backend, lanes });
  }

  /** @throws Error for the key of a backend that was not added */
  backendOf(target: ResourceKey): Backend {
    return this.#of(target).backend;
  }

  /** The queue of a target. @throws as `backendOf` */
  of(target: ResourceKey): KeyedQueue<ResourceKey> {
    const { backend, lanes } = this.#of(target);
    return lanes.of(backend.queueing.laneOf?.(target) ?? '');
  }

  get all(): QueueLanes<ResourceKey>['all'] {
    return Array.from(this.#backends.values(), ({ lanes }) => lanes.all).flat();
  }

  /** Starts the queues of each backend as soon as it is ready. */
  start(worker: TargetWorker): void {
    const startOne = async ({ backend, lanes }: BackendQueues): Promise<void> => {
      try {
        await backend.ready();
      } catch (error) {
        // A stop closes the watches of a backend, also if they were never listed.
        if (this.#stopped) return;
        throw error;
      }
      lanes.start((key, ...run) => worker(backend, key, ...run));
    };
    for (const queues of this.#backends.values()) void startOne(queues);
  }

  /** @see KeyedQueue.stop */
  async stop(options: StopOptions): Promise<void> {
    this.#stopped = true;
    await Promise.all(Array.from(this.#backends.values(), ({ lanes }) => lanes.stop(options)));
  }

  #of(target: ResourceKey): BackendQueues {
    const queues = this.#backends.get(backendOf(target));
    if (queues === undefined) throw new Error(`no backend for the target ${target}`);
    return queues;
  }
}
