/**
 * The queues (lanes) of the generator: one lane for each Vault server, and one for each namespace with ExternalSecrets
 * that read several servers. When a store names another server, its rules change to another lane. A rule is only in one
 * lane, and never runs twice at the same time. `Refusals` slows down rules that Vault or the API server refuses.
 */
import type { NamedQueue } from '../../../copy/engine/controller.ts';
import { namespaceOf, type RuleKey } from '../../../copy/model/keys.ts';
import { missingCredential } from '../../../copy/vault/access/login-tokens.ts';
import { isForbidden } from '../../../kube/errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import type { Priority, Worker } from '../../../runtime/queue/keyed-queue-options.ts';
import { QueueLanes, type QueueLanesOptions } from '../../../runtime/queue/queue-lanes.ts';
import { isVaultError } from '../../../vault/errors.ts';

export interface LanesOptions extends Omit<QueueLanesOptions<RuleKey>, 'clock'> {
  readonly clock: Clock;
  /** Longest pause before a retry, ms. Only refused rules may wait longer: see `Refusals`. */
  readonly retryMaxMs: number;
  /** The present lane of a rule: its server or namespace; `''`: the common lane, if no store names a server. */
  readonly laneOf: (key: RuleKey) => string;
}

/** If a rule still runs in its earlier lane: pause before its next try in the new lane, ms. */
const STILL_RUNNING_MS = 250;

export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes: QueueLanes<RuleKey>;
  readonly #refusals: Refusals;
  readonly #running = new Set<RuleKey>();
  /** The lane of each rule, except rules in the common lane. */
  readonly #laneOf = new Map<RuleKey, string>();

  constructor(options: LanesOptions) {
    this.#options = options;
    this.#lanes = new QueueLanes(options);
    this.#refusals = new Refusals(options.clock, options.retryMaxMs);
  }

  /** Adds a rule to its lane, and removes it from its earlier lane. */
  add(key: RuleKey, priority: Priority): void {
    const lane = this.#options.laneOf(key);
    const before = this.#laneOf.get(key) ?? '';
    if (lane !== before) this.#lanes.of(before).forget(key);
    if (lane === '') this.#laneOf.delete(key);
    else this.#laneOf.set(key, lane);
    this.#lanes.of(lane).add(key, { priority });
  }

  /** @param worker if Vault now has the values of the rule, it returns a result; otherwise `undefined` */
  start(worker: Worker<RuleKey>): void {
    this.#lanes.start(async (key, ...run) => {
      // The rule still runs in its earlier lane, perhaps for a long time. A wait here would block this lane, too.
      if (this.#running.has(key)) return { requeueAfterMs: STILL_RUNNING_MS };
      this.#running.add(key);
      try {
        const result = await worker(key, ...run);
        for (const refused of this.#refusals.succeeded(key, result !== undefined)) this.add(refused, 'low');
        return result;
      } catch (error) {
        const requeueAfterMs = this.#refusals.failed(key, error);
        if (requeueAfterMs === undefined) throw error;
        return { requeueAfterMs };
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

/** Maximum number of retries of all refused rules together, per second. A try takes 2 to 5 ms of CPU time. */
const TRIES_PER_SECOND = 10;
/** Shortest pause between two releases of a namespace, ms. Otherwise a user could cause a release again and again. */
const RELEASE_MS = 60_000;
/** Longest pause before a retry, ms. Otherwise thousands of rules of one user could delay other users for hours. */
const LONGEST_MS = 600_000;

interface Refused {
  readonly rules: Set<RuleKey>;
  /** Time of the last release of the namespace (see `Refusals`), monotonic ms. */
  releasedAt: number;
}

/**
 * Slows down retries that fail until a person acts, because a policy, a login or a permission is missing. Otherwise the
 * retries of thousands of rules would use much CPU time.
 *
 * All refused rules together are tried `TRIES_PER_SECOND` times a second. Namespaces share these tries equally, so that
 * many rules in one namespace do not delay other namespaces. When a refused rule succeeds, a person has acted. So all
 * refused rules of its namespace are released, which means that they are tried immediately.
 */
export class Refusals {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #usualMs: number;
  readonly #random: () => number;
  readonly #byNamespace = new Map<string, Refused>();

  /** @param usualMs longest pause before a retry of rules that are not slowed down, ms */
  constructor(clock: Pick<Clock, 'monotonic'>, usualMs: number, random = Math.random) {
    this.#clock = clock;
    this.#usualMs = usualMs;
    this.#random = random;
  }

  /** Records a failed try. @returns the pause before the next try, ms; `undefined`: the usual pause */
  failed(rule: RuleKey, error: unknown): number | undefined {
    if (!isRefusal(error)) {
      this.#remove(rule);
      return undefined;
    }
    const unknown = (): Refused => ({ rules: new Set(), releasedAt: -Infinity });
    const refused = getOrCreate(this.#byNamespace, namespaceOf(rule), unknown);
    refused.rules.add(rule);
    const waitMs = this.#waitMs(refused);
    // The pause is random, so that rules which failed at the same time are not tried at the same time again.
    return waitMs > this.#usualMs ? waitMs * (0.5 + this.#random()) : undefined;
  }

  /** Records a run that did not fail. @param hasValues whether Vault has the values now @returns the released rules */
  succeeded(rule: RuleKey, hasValues: boolean): Iterable<RuleKey> {
    const refused = this.#remove(rule);
    if (refused === undefined) return [];
    const now = this.#clock.monotonic();
    if (!hasValues || now < refused.releasedAt + Math.max(RELEASE_MS, this.#waitMs(refused))) return [];
    refused.releasedAt = now;
    return refused.rules;
  }

  /** @returns the refused rules of the namespace; `undefined`: the rule was not refused */
  #remove(rule: RuleKey): Refused | undefined {
    const namespace = namespaceOf(rule);
    const refused = this.#byNamespace.get(namespace);
    if (refused?.rules.delete(rule) !== true) return undefined;
    if (refused.rules.size === 0) this.#byNamespace.delete(namespace);
    return refused;
  }

  #waitMs({ rules }: Refused): number {
    return Math.min(LONGEST_MS, (rules.size * this.#byNamespace.size * 1000) / TRIES_PER_SECOND);
  }
}

/** Whether all retries fail until a person acts. */
function isRefusal(error: unknown): boolean {
  return isForbidden(error) || missingCredential(error) !== undefined || (isVaultError(error) && !error.transient);
}
