/**
 * The queues (lanes) of the generator: one lane for each Vault server, and one for each namespace with ExternalSecrets
 * that read several servers. When a store names another server, its rules change to another lane. A rule is only in one
 * lane, and never runs twice at the same time.
 */
import type { NamedQueue } from '../../../copy/engine/controller.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import { missingCredential } from '../../../copy/vault/access/login-tokens.ts';
import { isForbidden } from '../../../kube/errors.ts';
import type { Worker } from '../../../runtime/queue/keyed-queue.ts';
import { QueueLanes, type QueueLanesOptions } from '../../../runtime/queue/queue-lanes.ts';
import { isVaultError } from '../../../vault/errors.ts';

export interface LanesOptions extends QueueLanesOptions<RuleKey> {
  /** The present lane of a rule: its server or namespace; `''`: the common lane, if no store names a server. */
  readonly laneOf: (key: RuleKey) => string;
}

/** Longest pause before a retry, ms: a value is written within 20 s after Vault is back. */
const LONGEST_WAIT_MS = 12_000;
/** Longest pause while a policy, a login or a permission is missing, ms: a try takes 2 to 5 ms of CPU time. */
const REFUSED_WAIT_MS = 30_000;
/** If a rule still runs in its earlier lane: pause before its next try in the new lane, ms. */
const STILL_RUNNING_MS = 250;

export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes: QueueLanes<RuleKey>;
  readonly #running = new Set<RuleKey>();
  /** The lane of each rule, except rules in the common lane. */
  readonly #laneOf = new Map<RuleKey, string>();

  constructor(options: LanesOptions) {
    this.#options = options;
    this.#lanes = new QueueLanes({
      ...options,
      retryMaxMs: REFUSED_WAIT_MS,
      retryMaxMsOf: (error) => (isRefusal(error) ? undefined : LONGEST_WAIT_MS),
    });
  }

  /** Adds a rule to its lane, and removes it from its earlier lane. */
  add(key: RuleKey): void {
    const lane = this.#options.laneOf(key);
    const before = this.#laneOf.get(key) ?? '';
    if (lane !== before) this.#lanes.of(before).forget(key);
    if (lane === '') this.#laneOf.delete(key);
    else this.#laneOf.set(key, lane);
    this.#lanes.of(lane).add(key);
  }

  start(worker: Worker<RuleKey>): void {
    this.#lanes.start(async (key, ...run) => {
      // The rule still runs in its earlier lane, perhaps for a long time. A wait here would block this lane, too.
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

/** Whether all retries fail until a person acts. */
function isRefusal(error: unknown): boolean {
  return isForbidden(error) || missingCredential(error) !== undefined || (isVaultError(error) && !error.transient);
}
