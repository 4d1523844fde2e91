/** Reads annotated objects live, and records their events. `rules/rule-set.ts` turns the objects into claims. */
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { observe } from '../../copy/model/observed.ts';
import type { RuleProgress, RuleReconciler } from '../../copy/engine/controller.ts';
import type { ControllerContext } from '../common/context.ts';
import type { NamespaceChanges } from '../common/namespaces/namespace-changes.ts';
import { liveRules, RuleClient } from '../common/rules/rule-client.ts';
import { undeletedWarnings } from '../common/rules/undeleted.ts';
import { eventsOf } from './rules/rule-events.ts';
import type { ReplicatorRules } from './rules/rule-set.ts';

/** The source component of events. */
const EVENT_COMPONENT = 'k8s-replicator';

export class ReplicatorReconciler implements RuleReconciler {
  readonly rules: ReplicatorRules;
  readonly getLive: RuleReconciler['getLive'];
  readonly #recordEvent: ControllerContext['recordEvent'];
  /** The last events of each rule as JSON, so that the same events are not recorded again. Empty: there were none. */
  readonly #recorded = new Map<RuleKey, string>();

  constructor(
    { cluster: { api }, recordEvent }: Pick<ControllerContext, 'cluster' | 'recordEvent'>,
    rules: ReplicatorRules,
    isOutdated: NamespaceChanges['isOutdated'],
  ) {
    this.rules = rules;
    this.#recordEvent = recordEvent;
    this.getLive = liveRules(async (rule, signal) => {
      const { kind, place } = rules.objectOf(rule);
      const client = new RuleClient({ api, kind, metadataOnly: true });
      return rules.versionOf(observe((await client.get(`${place.namespace}/${place.name}`, signal)).metadata));
    }, isOutdated);
  }

  // oxlint-disable-next-line typescript/require-await -- other controllers write a status here
  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    { refusal, outOfReach, undeleted }: RuleProgress,
  ): Promise<RunResult | undefined> {
    const { kind: ofKind, place, observed } = this.rules.objectOf(rule);
    if (observed === undefined || this.rules.versionOf(observed) === undefined) {
      this.#recorded.delete(rule);
      return undefined;
    }
    const found = eventsOf(refusal, entries);
    if (found === undefined) return undefined;
    const remarks = this.rules.warningsOf(rule, outOfReach);
    // Only warnings are recorded: Normal events about one user's rules would displace warnings about those of others.
    const events = [...found, ...undeletedWarnings(undeleted), ...remarks.filter(({ type }) => type === 'Warning')];
    const text = events.length === 0 ? '' : JSON.stringify([observed.uid, events]);
    if (this.#recorded.get(rule) === text) return undefined;
    this.#recorded.set(rule, text);
    const { apiVersion, kind } = ofKind;
    const subject = { apiVersion, kind, ...place, uid: observed.uid };
    for (const event of events) this.#recordEvent(EVENT_COMPONENT, { subject, ...event });
    return undefined;
  }
}
