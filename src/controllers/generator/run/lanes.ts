/**
 * The queues of the generator: a lane for each Vault server, and one for each namespace with values of several servers. An ExternalSecret
 * changes its lane when its store names another server, or when it needs no more work. It is in one lane, and never runs twice at the same
 * time.
 */
import type { NamedQueue } from '../../../copy/engine/controller.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { Priority, Worker } from '../../../runtime/queue/keyed-queue-options.ts';
import { QueueLanes, type QueueLanesOptions } from '../../../runtime/queue/queue-lanes.ts';

export interface LanesOptions extends QueueLanesOptions<RuleKey> {
  /** The lane of a rule now; `''` if it has none of its own. */
  readonly laneOf: (key: RuleKey) => string;
}

/** Until a run in another lane has ended, ms. */
const STILL_RUNNING_MS = 250;

export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes: QueueLanes<RuleKey>;
  readonly #running = new Set<RuleKey>();
  /** The lane of each rule, unless it is `''`. */
  readonly #laneOf = new Map<RuleKey, string>();

  constructor(options: LanesOptions) {
    this.#options = options;
    this.#lanes = new QueueLanes(options);
  }

  /** Adds a rule to its lane, and removes it from the one that it was in. */
  add(key: RuleKey, priority: Priority): void {
    const lane = this.#options.laneOf(key);
    const before = this.#laneOf.get(key) ?? '';
    if (lane !== before) this.#lanes.of(before).forget(key);
    if (lane === '') this.#laneOf.delete(key);
    else this.#laneOf.set(key, lane);
    this.#lanes.of(lane).add(key, { priority });
  }

  start(worker: Worker<RuleKey>): void {
    this.#lanes.start(async (key, ...run) => {
      // In the lane before. It is not awaited here: a server that does not answer would take a place in this lane.
      if (this.#running.has(key)) return { requeueAfterMs: STILL_RUNNING_MS };
      this.#running.add(key);
      try {
        return await worker(key, ...run);
      } finally {
        this.#running.delete(key);
      }
    });
  }

  get all(): readonly NamedQueue[] {
    return this.#lanes.all;
  }

  async stop(drainMs: number): Promise<void> {
    await this.#lanes.stop({ drainMs });
  }
}
