/**
 * The queues of the generator, called lanes: one for each Vault server, and one for each namespace with values of
 * several servers. A rule changes its lane when its store names another server. Each rule is in one lane, and never
 * runs twice at the same time. `Refusals` slows down rules that Vault or the API server refuses.
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
  /** Longest pause before a retry, ms. Only refused rules wait longer, if they are many. */
  readonly retryMaxMs: number;
  /** The present lane of a rule: a server or namespace; `''`: the common lane. */
  readonly laneOf: (key: RuleKey) => string;
}

/** Pause until a rule is tried again that still runs in its earlier lane, ms. */
const STILL_RUNNING_MS = 250;

export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes: QueueLanes<RuleKey>;
  readonly #refusals: Refusals;
  readonly #running = new Set<RuleKey>();
  /** The lane of each rule, except for rules in the common lane. */
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

  /** @param worker its result is `undefined` unless Vault now has the values of the rule */
  start(worker: Worker<RuleKey>): void {
    this.#lanes.start(async (key, ...run) => {
      // The rule still runs in its earlier lane, perhaps for long. To wait here would block this lane, too.
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

/** All retries of refused rules together, per second. A try takes 2 to 5 ms of CPU time. */
const TRIES_PER_SECOND = 10;
/** Pause between two releases of a namespace, ms. Otherwise its author could cause releases without end. */
const RELEASE_MS = 60_000;
/** Longest pause before a retry, ms. Otherwise thousands of rules of one user could delay another's for hours. */
const LONGEST_MS = 600_000;

interface Refused {
  readonly rules: Set<RuleKey>;
  /** Time of the last release, monotonic ms. */
  releasedAt: number;
}

/**
 * The pace of tries that fail until a person acts, because a policy, a login or a permission is missing. Without it,
 * retries of thousands of rules would take a good part of a core.
 *
 * All refused rules together are tried `TRIES_PER_SECOND` times a second. Namespaces share these tries equally, so that
 * many rules of one do not delay another. When a rule succeeds, somebody has acted, so all refused rules of its
 * namespace are released: tried at once.
 */
export class Refusals {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #usualMs: number;
  readonly #random: () => number;
  readonly #byNamespace = new Map<string, Refused>();

  /** @param usualMs longest pause of rules that are not slowed down */
  constructor(clock: Pick<Clock, 'monotonic'>, usualMs: number, random = Math.random) {
    this.#clock = clock;
    this.#usualMs = usualMs;
    this.#random = random;
  }

  /** Records a failed try. @returns the pause before the next one, ms; `undefined`: the usual pause */
  failed(rule: RuleKey, error: unknown): number | undefined {
    if (!isRefusal(error)) {
      this.#remove(rule);
      return undefined;
    }
    const unknown = (): Refused => ({ rules: new Set(), releasedAt: -Infinity });
    const refused = getOrCreate(this.#byNamespace, namespaceOf(rule), unknown);
    refused.rules.add(rule);
    const waitMs = this.#waitMs(refused);
    // A random spread, so that rules which failed together are not tried together again.
    return waitMs > this.#usualMs ? waitMs * (0.5 + this.#random()) : undefined;
  }

  /** Records a run that did not fail. @param hasValues Vault now has the rule's values @returns the released rules */
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

/** Whether a try fails until a person acts. */
function isRefusal(error: unknown): boolean {
  return isForbidden(error) || missingCredential(error) !== undefined || (isVaultError(error) && !error.transient);
}
