/**
 * Writes the status of rules. `RuleStatuses` writes a status only if it changes, and records its events only once. If
 * another client changes a status, Keyferry writes it again. The pauses grow, in case the other client does the same.
 */
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { KubeObject } from '../../../kube/api.ts';
import { countRepair, pauseBeforeRepair, type Repairs } from '../../../copy/plan/repairs.ts';
import type { EventInput } from '../../../kube/event-recorder.ts';
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
  /** Whether two statuses are equal for users. If so, Keyferry does not write the new status. */
  readonly isSame: (a: Status, b: Status) => boolean;
  readonly recordEvent: (rule: Rule, event: RuleEvent) => void;
  /** Called when another client has changed the status of a rule. */
  readonly onForeign: (rule: RuleKey) => void;
  /** Wall clock, ms. */
  readonly now: () => number;
}

export class RuleStatuses<Rule extends WithStatus<Status>, Status extends object> {
  readonly #options: RuleStatusesOptions<Rule, Status>;
  /**
   * For rules whose status the server stores in another form: the last written status, and the stored form. Example: if
   * the CRD lacks a field of the status, the server drops the field. This difference must not cause a write each time.
   */
  readonly #written = new Map<RuleKey, { readonly uid: string; readonly status: Status; readonly stored: Status }>();
  /** The status in a request that is under way. The watch may report this status before the response arrives. */
  readonly #sending = new Map<RuleKey, Status>();
  /** Rules whose status another client has changed since the last write. */
  readonly #changed = new Set<RuleKey>();
  /** For each rule: how often Keyferry has replaced a status that another client had changed. */
  readonly #repairs = new Map<RuleKey, Repairs>();
  /** The events recorded since the last successful write, as JSON. A retry of the write records no event twice. */
  readonly #recorded = new Map<RuleKey, string>();

  constructor(options: RuleStatusesOptions<Rule, Status>) {
    this.#options = options;
    options.store.onSameVersion((...report) => this.#reported(...report));
  }

  /** The last written status, if the server has it in its own form (see `#written`). Otherwise the stored status. */
  latest(key: RuleKey, { metadata: { uid }, status = {} as Status }: Rule): Status {
    const written = this.#written.get(key);
    // After the last write, a new object with the same name may have been created.
    return written?.uid === uid && this.#options.isSame(written.stored, status) ? written.status : status;
  }

  /** Called when the watch reports a rule. Another client may have written its status. */
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
   * Records the events. Writes the status if it differs from `latest`.
   * @returns a pause before the next try, if another client changes the status too often; otherwise `undefined`
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
    // Events are recorded first, because the server may refuse the write of the status.
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

  /** Records events. If a retry passes the same events again, nothing is recorded. */
  record(key: RuleKey, rule: Rule, events: readonly RuleEvent[]): void {
    if (events.length === 0) return;
    const text = JSON.stringify([rule.metadata.uid, events]);
    if (this.#recorded.get(key) === text) return;
    this.#recorded.set(key, text);
    for (const event of events) this.#options.recordEvent(rule, event);
  }

  /** Forgets a rule. Call this when the rule is gone. */
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
 * Makes the next state of a condition. `lastTransitionTime` changes only if `status` changes.
 * @param before the present state; `undefined`: the object does not have this condition yet
 * @param generation the generation of the evaluated object. @param now wall clock, ms
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

/** Whether the conditions are equal. `lastTransitionTime` may differ. */
export function sameConditions(a: readonly Condition[] | undefined, b: readonly Condition[] | undefined): boolean {
  return JSON.stringify(a?.map(comparable) ?? []) === JSON.stringify(b?.map(comparable) ?? []);
}

function comparable({ type, status, observedGeneration, reason, message }: Condition): unknown {
  return [type, status, observedGeneration, reason, message];
}
