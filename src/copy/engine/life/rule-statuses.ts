/**
 * Writes the status of rules: only if it changes. If another client changes a status, Keyferry writes it again. The
 * pauses grow, in case the other client does the same.
 */
import type { RuleKey } from '../../model/keys.ts';
import { isObjectGone } from '../../../kube/errors.ts';
import { countRepair, pauseBeforeRepair, type Repairs } from '../../plan/repairs.ts';
import { sameStatus, type RuleStatus } from './condition.ts';
import type { RuleClient } from './rule-client.ts';
import type { KeptRules, RuleObject } from './rule-store.ts';

/** A rule with a status. */
type WithStatus<Status> = RuleObject & { readonly status?: Status };

export interface RuleStatusesOptions<Rule extends RuleObject> {
  readonly client: Pick<RuleClient, 'putStatus'>;
  readonly store: Pick<KeptRules<Rule>, 'get' | 'storeResponse' | 'onSameVersion'>;
  /** Called when another client has changed the status of a rule. */
  readonly onForeign: (rule: RuleKey) => void;
  /** Wall clock, ms. */
  readonly now: () => number;
}

export class RuleStatuses<Rule extends RuleObject, Status extends RuleStatus> {
  readonly #options: RuleStatusesOptions<Rule>;
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
  /** The types of the conditions that Keyferry writes. */
  readonly #own = new Set<string>();

  constructor(options: RuleStatusesOptions<Rule>) {
    this.#options = options;
    options.store.onSameVersion((...report) => this.#reported(...report));
  }

  /** The last written status, if the server has it in its own form (see `#written`). Otherwise the stored status. */
  latest(key: RuleKey, rule: Rule): Status {
    const written = this.#written.get(key);
    const stored = statusOf<Status>(rule);
    // After the last write, a new object with the same name may have been created.
    return written?.uid === rule.metadata.uid && this.#isSame(written.stored, stored) ? written.status : stored;
  }

  /** Whether a status is the one that the rule has. */
  isLatest(key: RuleKey, rule: Rule, status: Status): boolean {
    for (const { type } of status.conditions ?? []) this.#own.add(type);
    return this.#isSame(this.latest(key, rule), status);
  }

  #isSame(a: Status, b: Status): boolean {
    return sameStatus(a, b, this.#own);
  }

  /** Called when the watch reports a rule. Another client may have written its status. */
  #reported(key: RuleKey, before: Rule, after: Rule): void {
    const { uid, resourceVersion } = after.metadata;
    const stored = statusOf<Status>(after);
    const sending = this.#sending.get(key);
    if (this.#isSame(statusOf(before), stored) || (sending !== undefined && this.#isSame(sending, stored))) return;
    if (uid === before.metadata.uid && resourceVersion === before.metadata.resourceVersion) {
      this.#written.set(key, { uid, status: this.latest(key, before), stored });
      return;
    }
    this.#changed.add(key);
    this.#options.onForeign(key);
  }

  /**
   * How long a status must wait because another client changes it too often, ms; 0: it can be written. Call it before
   * `write`, once for each write.
   */
  pauseMs(key: RuleKey, rule: Rule, status: Status): number {
    if (this.isLatest(key, rule, status)) this.#changed.delete(key);
    if (!this.#changed.has(key)) return 0;
    const now = this.#options.now();
    const repairs = this.#repairs.get(key);
    const pauseMs = pauseBeforeRepair(repairs, now);
    if (pauseMs <= 0) this.#repairs.set(key, countRepair(repairs, now));
    return pauseMs;
  }

  /** Writes the status if it differs from `latest`. A deleted object is not an error. @throws ApiError, ConnectionError */
  async write(key: RuleKey, rule: Rule, status: Status, signal: AbortSignal): Promise<void> {
    if (this.isLatest(key, rule, status)) return;
    const { client, store } = this.#options;
    const { uid, name } = rule.metadata;
    this.#changed.delete(key);
    this.#sending.set(key, status);
    try {
      store.storeResponse(Object.assign(await client.putStatus(key, uid, status, signal), { status }));
    } catch (error) {
      if (!isObjectGone(error, name)) throw error;
    } finally {
      this.#sending.delete(key);
    }
    const stored = statusOf<Status>(store.get(key));
    if (this.#isSame(stored, status)) this.#written.delete(key);
    else this.#written.set(key, { uid, status, stored });
  }

  /** Forgets a rule. Call this when the rule is gone. */
  forget(key: RuleKey): void {
    this.#written.delete(key);
    this.#changed.delete(key);
    this.#repairs.delete(key);
  }
}

function statusOf<Status>(rule: WithStatus<Status> | undefined): Status {
  return rule?.status ?? ({} as Status);
}
