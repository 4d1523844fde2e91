/**
 * The conditions and the status of rules. `RuleStatuses` writes a status only where it changes, and records its events
 * once. A status that another client changes is written again: first at once, then ever later, in case both do so.
 */
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { KubeObject } from '../../../kube/api.ts';
import { countRepair, pauseBeforeRepair, type Repairs } from '../../../copy/plan/repairs.ts';
import type { EventInput } from '../../../kube/event-correlator.ts';
import type { RunResult } from '../../../runtime/queue/keyed-queue-options.ts';
import { clipped, rfc3339 } from '../../../runtime/text/texts.ts';
import type { RuleClient } from './rule-client.ts';
import type { RuleStore } from './rule-store.ts';

/** An event about a rule. */
export type RuleEvent = Omit<EventInput, 'subject'>;

/** A rule with a status. */
type WithStatus<Status> = KubeObject & { readonly status?: Status };

export interface RuleStatusesOptions<Rule extends WithStatus<Status>, Status extends object> {
  readonly client: RuleClient;
  readonly store: Pick<RuleStore<Rule>, 'get' | 'onSameVersion'>;
  /** Whether the two statuses are equal for users, so that no write is needed. */
  readonly isSame: (a: Status, b: Status) => boolean;
  readonly recordEvent: (rule: Rule, event: RuleEvent) => void;
  /** Another client has changed the status of a rule. */
  readonly onForeign: (rule: RuleKey) => void;
  /** Wall clock, ms. */
  readonly now: () => number;
}

export class RuleStatuses<Rule extends WithStatus<Status>, Status extends object> {
  readonly #options: RuleStatusesOptions<Rule, Status>;
  /**
   * For rules whose status the server stores in another form: the last written status, and the stored form. A CRD
   * without a field of the status, for example, drops that field. The difference must not cause a new write each time.
   */
  readonly #written = new Map<RuleKey, { readonly uid: string; readonly status: Status; readonly stored: Status }>();
  /** The status in a request that is under way. The watch may report it before the response. */
  readonly #sending = new Map<RuleKey, Status>();
  /** Rules whose status another client has changed since the last write. */
  readonly #changed = new Set<RuleKey>();
  /** How often Keyferry has replaced each status that another client changed. */
  readonly #repairs = new Map<RuleKey, Repairs>();
  /** The events since the last write of a status, as JSON: a retry does not record them again. */
  readonly #recorded = new Map<RuleKey, string>();

  constructor(options: RuleStatusesOptions<Rule, Status>) {
    this.#options = options;
    options.store.onSameVersion((...report) => this.#reported(...report));
  }

  /** The last written status, if the server stores its own form of that status. Otherwise the stored status. */
  latest(key: RuleKey, { metadata: { uid }, status = {} as Status }: Rule): Status {
    const written = this.#written.get(key);
    // A new object of the same name may exist since the last write.
    return written?.uid === uid && this.#options.isSame(written.stored, status) ? written.status : status;
  }

  /** The watch reports a rule. Its status may be that of another client. */
  #reported(key: RuleKey, before: Rule, after: Rule): void {
    const { isSame, onForeign } = this.#options;
    const { uid, resourceVersion } = after.metadata;
    const { status = {} as Status } = before;
    const { status: stored = {} as Status } = after;
    const sending = this.#sending.get(key);
    if (isSame(status, stored) || (sending !== undefined && isSame(sending, stored))) return;
    if (uid === before.metadata.uid && resourceVersion === before.metadata.resourceVersion) {
      this.#written.set(key, { uid, status: this.latest(key, before), stored });
      return;
    }
    this.#changed.add(key);
    onForeign(key);
  }

  /**
   * Records the events, and writes the status if it differs from the latest.
   * @returns when to try again, if another client changes the status too often
   * @throws ApiError, ConnectionError
   */
  async write(
    key: RuleKey,
    rule: Rule,
    { status, events }: { readonly status: Status; readonly events: readonly RuleEvent[] },
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { client, store, isSame, now } = this.#options;
    const isLatest = isSame(this.latest(key, rule), status);
    if (isLatest) this.#changed.delete(key);
    if (isLatest && events.length === 0) return undefined;
    if (this.#changed.has(key)) {
      const repairs = this.#repairs.get(key);
      const pauseMs = pauseBeforeRepair(repairs, now());
      if (pauseMs > 0) return { requeueAfterMs: pauseMs };
      this.#repairs.set(key, countRepair(repairs, now()));
    }
    // Events come before the write of the status: the server may refuse the write.
    this.record(key, rule, events);
    if (!isLatest) {
      this.#changed.delete(key);
      this.#sending.set(key, status);
      try {
        await client.writeStatus(rule, status, signal);
      } finally {
        this.#sending.delete(key);
      }
      const stored = store.get(key)?.status ?? ({} as Status);
      if (isSame(stored, status)) this.#written.delete(key);
      else this.#written.set(key, { uid: rule.metadata.uid, status, stored });
    }
    this.#recorded.delete(key);
    return undefined;
  }

  /** Records events once: a retry with the same events records nothing. */
  record(key: RuleKey, rule: Rule, events: readonly RuleEvent[]): void {
    if (events.length === 0) return;
    const text = JSON.stringify([rule.metadata.uid, events]);
    if (this.#recorded.get(key) === text) return;
    this.#recorded.set(key, text);
    for (const event of events) this.#options.recordEvent(rule, event);
  }

  /** Call it when the rule is gone. */
  forget(key: RuleKey): void {
    this.#written.delete(key);
    this.#recorded.delete(key);
    this.#changed.delete(key);
    this.#repairs.delete(key);
  }
}

/** `metav1.Condition`. */
export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly observedGeneration?: number;
  /** RFC 3339. */
  readonly lastTransitionTime: string;
  readonly reason: string;
  readonly message: string;
}

/** Longest message that the API accepts, characters. */
const MAX_MESSAGE = 32_768;

/**
 * The next state of a condition. `lastTransitionTime` changes only together with the status.
 * @param before the present state
 * @param generation that of the evaluated object. @param now wall clock, ms
 */
export function nextCondition(
  before: Condition | undefined,
  { type, status, reason, message }: Pick<Condition, 'type' | 'status' | 'reason' | 'message'>,
  generation: number | undefined,
  now: number,
  maxMessage = MAX_MESSAGE,
): Condition {
  return {
    type,
    status,
    ...(generation === undefined ? {} : { observedGeneration: generation }),
    lastTransitionTime: before?.status === status ? before.lastTransitionTime : rfc3339(now),
    reason,
    message: clipped(message, maxMessage),
  };
}

/** Compares everything except `lastTransitionTime`. */
export function sameConditions(a: readonly Condition[] | undefined, b: readonly Condition[] | undefined): boolean {
  return JSON.stringify(a?.map(comparable) ?? []) === JSON.stringify(b?.map(comparable) ?? []);
}

function comparable({ type, status, observedGeneration, reason, message }: Condition): unknown {
  return [type, status, observedGeneration, reason, message];
}
