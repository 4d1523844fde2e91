/**
 * Several queues of one kind of work, one for each lane (a server): what is slow in one lane holds up nothing in another.
 *
 * A lane is made when its first key comes and stays until `stop`; there are as many as servers that were ever named.
 */
import { KeyedQueue } from './keyed-queue.ts';
import type { KeyedQueueOptions, StopOptions, Worker } from './keyed-queue-options.ts';

export interface QueueLanesOptions extends KeyedQueueOptions {
  /** Runs at once in each lane. Default 1. */
  readonly concurrency?: number;
}

export class QueueLanes {
  readonly #options: QueueLanesOptions;
  readonly #lanes = new Map<string, KeyedQueue>();
  #worker: Worker | undefined;
  #stopped = false;

  constructor(options: QueueLanesOptions) {
    this.#options = options;
  }

  /** The queue of a lane. After `stop` one that takes nothing. */
  of(lane: string): KeyedQueue {
    let queue = this.#lanes.get(lane);
    if (queue === undefined) {
      queue = new KeyedQueue({ ...this.#options, name: `${this.#options.name} ${lane}` });
      this.#lanes.set(lane, queue);
      if (this.#stopped) void queue.stop();
      else if (this.#worker !== undefined) queue.start(this.#worker, this.#options);
    }
    return queue;
  }

  get all(): readonly { readonly name: string; readonly queue: KeyedQueue }[] {
    return [...this.#lanes].map(([lane, queue]) => ({ name: `${this.#options.name} ${lane}`, queue }));
  }

  /** Starts every lane, those that are made later too. */
  start(worker: Worker): void {
    this.#worker = worker;
    for (const queue of this.#lanes.values()) queue.start(worker, this.#options);
  }

  /** As `KeyedQueue.stop`, all lanes at the same time. */
  async stop(options: StopOptions = {}): Promise<void> {
    this.#stopped = true;
    await Promise.all([...this.#lanes.values()].map((queue) => queue.stop(options)));
  }
}
