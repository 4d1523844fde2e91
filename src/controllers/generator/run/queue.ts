/**
 * The queues of the generator: a lane for each Vault server, and one for each namespace with values of several servers. An ExternalSecret
 * changes its lane when its store names another server, or when it needs no more work. Each is in one lane, and never runs twice at the same
 * time. Those that are refused have a pace of their own.
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
  /** The longest wait of rules that are few, ms. Many refused ones wait longer. */
  readonly retryMaxMs: number;
  /** The lane of a rule now; `''` if it has none of its own. */
  readonly laneOf: (key: RuleKey) => string;
}

/** Until a run in another lane has ended, ms. */
const STILL_RUNNING_MS = 250;

export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes: QueueLanes<RuleKey>;
  readonly #refusals: Refusals;
  readonly #running = new Set<RuleKey>();
  /** The lane of each rule that is in one of a server or namespace. */
  readonly #laneOf = new Map<RuleKey, string>();

  constructor(options: LanesOptions) {
    this.#options = options;
    this.#lanes = new QueueLanes(options);
    this.#refusals = new Refusals(options.clock, options.retryMaxMs);
  }

  /** Adds a rule to its lane, and removes the rule from the lane before. */
  add(key: RuleKey, priority: Priority): void {
    const lane = this.#options.laneOf(key);
    const before = this.#laneOf.get(key) ?? '';
    if (lane !== before) this.#lanes.of(before).forget(key);
    if (lane === '') this.#laneOf.delete(key);
    else this.#laneOf.set(key, lane);
    this.#lanes.of(lane).add(key, { priority });
  }

  /** @param worker a result says that Vault has the values of the rule now */
  start(worker: Worker<RuleKey>): void {
    this.#lanes.start(async (key, ...run) => {
      // The rule still runs in the lane before. This run does not wait: a server without answers would take a place in this lane, too.
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

/** A try takes two to five milliseconds of CPU time. */
const TRIES_PER_SECOND = 10;
/** Between two releases of a namespace, ms: its author may refuse and permit without end. */
const RELEASE_MS = 60_000;
/** Longest wait, ms, however many there are: those of one user must not keep another's for hours. Then there are more tries a second. */
const LONGEST_MS = 600_000;

interface Refused {
  readonly rules: Set<RuleKey>;
  /** Monotonic ms. */
  releasedAt: number;
}

/**
 * The pace of tries that fail until a person acts: a policy, a login, or a permission is missing. Thousands of them would cost a good part of a
 * core if each was tried again as often as a few are.
 *
 * All refused rules together are tried `TRIES_PER_SECOND` times a second. Namespaces with refused rules share these tries equally, so that many
 * of one delay no other. A success in a namespace shows that somebody has acted: then its refused rules are tried at once.
 */
export class Refusals {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #usualMs: number;
  readonly #random: () => number;
  readonly #byNamespace = new Map<string, Refused>();

  /** @param usualMs the longest wait of rules that are few */
  constructor(clock: Pick<Clock, 'monotonic'>, usualMs: number, random = Math.random) {
    this.#clock = clock;
    this.#usualMs = usualMs;
    this.#random = random;
  }

  /** A try failed. @returns the wait until the next one, ms; `undefined`: as usual */
  failed(rule: RuleKey, error: unknown): number | undefined {
    if (!isRefusal(error)) {
      this.#remove(rule);
      return undefined;
    }
    const unknown = (): Refused => ({ rules: new Set(), releasedAt: -Infinity });
    const refused = getOrCreate(this.#byNamespace, namespaceOf(rule), unknown);
    refused.rules.add(rule);
    const waitMs = this.#waitMs(refused);
    // Spread, so that rules that came together do not stay together.
    return waitMs > this.#usualMs ? waitMs * (0.5 + this.#random()) : undefined;
  }

  /** A run did not fail. @param hasValues Vault has the values of the rule now @returns the rules to be tried now */
  succeeded(rule: RuleKey, hasValues: boolean): Iterable<RuleKey> {
    const refused = this.#remove(rule);
    if (refused === undefined) return [];
    const now = this.#clock.monotonic();
    if (!hasValues || now < refused.releasedAt + Math.max(RELEASE_MS, this.#waitMs(refused))) return [];
    refused.releasedAt = now;
    return refused.rules;
  }

  /** @returns the refused rules of its namespace; `undefined`: the rule was not refused */
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
