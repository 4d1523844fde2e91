/** Writes the status of rules where it changes, and records their events once. */
import type { RuleKey } from '../../copy/model/keys.ts';
import type { KubeObject } from '../../kube/api.ts';
import type { EventInput } from '../../kube/event-correlator.ts';
import type { RuleClient } from './rule-client.ts';
import type { RuleStore } from './rule-store.ts';

/** An event about a rule. */
export type RuleEvent = Omit<EventInput, 'subject'>;

/** A rule with a status. */
type WithStatus<Status> = KubeObject & { readonly status?: Status };

export interface RuleStatusesOptions<Rule extends WithStatus<Status>, Status extends object> {
  readonly client: RuleClient;
  readonly store: Pick<RuleStore<Rule>, 'get'>;
  /** Whether a status need not be written in place of another. */
  readonly isSame: (a: Status, b: Status) => boolean;
  readonly recordEvent: (rule: Rule, event: RuleEvent) => void;
}

export class RuleStatuses<Rule extends WithStatus<Status>, Status extends object> {
  readonly #options: RuleStatusesOptions<Rule, Status>;
  /**
   * The last written status of rules that the server stored in another form: a CRD without one of its fields drops that field. This must
   * not cause a write each time.
   */
  readonly #written = new Map<RuleKey, { readonly uid: string; readonly status: Status }>();
  /** Events since the last status. */
  readonly #recorded = new Map<RuleKey, string>();

  constructor(options: RuleStatusesOptions<Rule, Status>) {
    this.#options = options;
  }

  /** The status that was last written, or else the stored one. */
  latest(key: RuleKey, rule: Rule): Status | undefined {
    const written = this.#written.get(key);
    // Another object of the same name may have been created since the last status.
    return written?.uid === rule.metadata.uid ? written.status : rule.status;
  }

  /** Records the events, and writes the status unless it is the latest. @throws ApiError, ConnectionError */
  async write(
    key: RuleKey,
    rule: Rule,
    { status, events }: { readonly status: Status; readonly events: readonly RuleEvent[] },
    signal: AbortSignal,
  ): Promise<void> {
    const { client, store, isSame } = this.#options;
    const latest = this.latest(key, rule);
    const isLatest = latest !== undefined && isSame(latest, status);
    if (isLatest && events.length === 0) return;
    // Before the status is written, because that may be refused.
    this.record(key, rule, events);
    if (!isLatest) {
      await client.writeStatus(rule, status, signal);
      const stored = store.get(key)?.status;
      if (stored !== undefined && isSame(stored, status)) this.#written.delete(key);
      else this.#written.set(key, { uid: rule.metadata.uid, status });
    }
    this.#recorded.delete(key);
  }

  /** Records events, and only once for all retries. */
  record(key: RuleKey, rule: Rule, events: readonly RuleEvent[]): void {
    if (events.length === 0) return;
    const text = JSON.stringify([rule.metadata.uid, events]);
    if (this.#recorded.get(key) === text) return;
    this.#recorded.set(key, text);
    for (const event of events) this.#options.recordEvent(rule, event);
  }

  /** The rule is gone. */
  forget(key: RuleKey): void {
    this.#written.delete(key);
    this.#recorded.delete(key);
  }
}
