/**
 * Several queues for one kind of work: one for each lane, such as a Vault server, so that a slow lane delays no other
 * lane. A lane is created for its first key. If there are many lanes, unused lanes are removed, because users may name
 * more and more servers.
 */
import { KeyedQueue, type KeyedQueueOptions, type StopOptions, type Worker } from './keyed-queue.ts';

export interface QueueLanesOptions<K extends string = string> extends KeyedQueueOptions<K> {
  /** Largest number of runs at a time in each lane. Default 1. */
  readonly concurrency?: number;
  /** The lanes are servers that users name: a run may wait for one as long as its calls may. It is not stuck. */
  readonly pauses?: true | undefined;
}

/** From this number of lanes on, unused lanes are removed. */
const MANY = 64;

export class QueueLanes<K extends string = string> {
  readonly #options: QueueLanesOptions<K>;
  readonly #lanes = new Map<string, KeyedQueue<K>>();
  #worker: Worker<K> | undefined;
  #stopped = false;
  #sweepAt = MANY;

  constructor(options: QueueLanesOptions<K>) {
    this.#options = options;
  }

  /** The queue of a lane. After `stop` it accepts no keys. */
  of(lane: string): KeyedQueue<K> {
    let queue = this.#lanes.get(lane);
    if (queue === undefined) {
      if (this.#lanes.size >= this.#sweepAt) this.#sweep();
      queue = new KeyedQueue<K>({ ...this.#options, name: this.#nameOf(lane) });
      this.#lanes.set(lane, queue);
      if (this.#stopped) void queue.stop();
      else if (this.#worker !== undefined) queue.start(this.#worker, this.#options);
    }
    return queue;
  }

  #sweep(): void {
    for (const [lane, queue] of this.#lanes) {
      if (!queue.isUnused) continue;
      this.#lanes.delete(lane);
      void queue.stop();
    }
    this.#sweepAt = Math.max(MANY, 2 * this.#lanes.size);
  }

  get all() {
    const { pauses } = this.#options;
    return [...this.#lanes].map(([lane, queue]) => ({ name: this.#nameOf(lane), queue, pauses }));
  }

  #nameOf(lane: string): string {
    return lane === '' ? this.#options.name : `${this.#options.name} ${lane}`;
  }

  /** Starts all lanes, and also lanes that are created later. */
  start(worker: Worker<K>): void {
    this.#worker = worker;
    for (const queue of this.#lanes.values()) queue.start(worker, this.#options);
  }

  /** Stops all lanes at the same time, as `KeyedQueue.stop` does. */
  async stop(options: StopOptions = {}): Promise<void> {
    this.#stopped = true;
    await Promise.all([...this.#lanes.values()].map((queue) => queue.stop(options)));
  }
}
