/** The duties of the operator for annotated objects: it reads them live, and records events. Their meaning is in `rules/rule-set.ts`. */
import type { KubeApi } from '../../kube/api.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import type { Kind } from '../../copy/model/kind.ts';
import { observe } from '../../copy/model/observed.ts';
import type { RuleProgress, RuleReconciler } from '../../copy/engine/controller.ts';
import type { NamespaceChanges } from '../common/namespaces/namespace-changes.ts';
import type { EventInput } from '../../kube/event-recorder.ts';
import { liveRules, RuleClient } from '../common/rules/rule-client.ts';
import type { Place } from './rules/annotations.ts';
import { eventsOf, type ReplicatorEvent } from './rules/rule-events.ts';
import type { ReplicatorRules } from './rules/rule-set.ts';

/** The annotated object of a rule. */
export interface RuleObject extends Place {
  readonly kind: Kind;
  readonly uid: string;
}

export interface ReplicatorReconcilerOptions {
  readonly api: KubeApi;
  readonly rules: ReplicatorRules;
  readonly recordEvent: (subject: RuleObject, event: ReplicatorEvent & Pick<EventInput, 'state'>) => void;
  /** @see NamespaceChanges */
  readonly isOutdated: NamespaceChanges['isOutdated'];
}

export class ReplicatorReconciler implements RuleReconciler {
  readonly rules: ReplicatorRules;
  readonly getLive: RuleReconciler['getLive'];
  readonly #options: ReplicatorReconcilerOptions;
  /** The last recorded events of each rule, to record them once. Empty: it had none. */
  readonly #recorded = new Map<RuleKey, string>();

  constructor(options: ReplicatorReconcilerOptions) {
    this.#options = options;
    const { api, rules, isOutdated } = options;
    this.rules = rules;
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
    { refusal, outOfReach }: RuleProgress,
  ): Promise<RunResult | undefined> {
    const { kind, place, observed } = this.rules.objectOf(rule);
    if (observed === undefined || this.rules.versionOf(observed) === undefined) {
      this.#recorded.delete(rule);
      return undefined;
    }
    const found = eventsOf(refusal, entries);
    if (found === undefined) return undefined;
    const remarks = this.rules.warningsOf(rule, outOfReach);
    // A usual state is no event: those of one user would displace the warnings of others. The commands show it.
    const events = [...found, ...remarks.filter(({ type }) => type === 'Warning')];
    const text = events.length === 0 ? '' : JSON.stringify([observed.uid, events]);
    const before = this.#recorded.get(rule);
    if (before === text) return undefined;
    this.#recorded.set(rule, text);
    const state = before === undefined ? 'found' : 'begun';
    for (const event of events) this.#options.recordEvent({ kind, ...place, uid: observed.uid }, { ...event, state });
    return undefined;
  }
}
