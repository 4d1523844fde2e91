/** The annotated objects for `status` and `plan`. */
import { parseResourceKey, type ResourceKey, resourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import { PatternCache } from '../common/namespace-patterns.ts';
import type { Inventory } from '../common/snapshot/inventory.ts';
import type { ControllerReader, ReaderContext, RuleReader } from '../common/snapshot/reader.ts';
import type { Snapshot } from '../common/snapshot/snapshot.ts';
import type { ControllerStatus } from '../common/snapshot/status-report.ts';
import { annotationNames } from './annotations.ts';
import { REPLICATED_KINDS, REPLICATOR_CONTROLLER, ReplicatorReconciler } from './reconciler.ts';
import { readRule, type ReplicationRule, type RuleSettings } from './rule.ts';
import { replicatorStatus } from './status-report.ts';

export const replicatorReader: ControllerReader = {
  collection: undefined,
  open: (context) => new ReplicatorReader(context),
};

export class ReplicatorReader implements RuleReader {
  readonly ruleNames = 'Secrets or ConfigMaps with replicator annotations';
  readonly reconciler: ReplicatorReconciler;
  readonly settings: RuleSettings;
  readonly #inventory: Inventory;

  constructor({ api, config, inventory, onLimitChange }: ReaderContext) {
    const { annotationsPrefix, allowAll, ignoreUnknown, runReplicators } = config.replicator;
    this.#inventory = inventory;
    this.settings = {
      names: annotationNames(annotationsPrefix),
      allowAll,
      ignoreUnknown,
      // These labels are set at creation only: copies that exist keep theirs.
      createWithLabels: {},
      patterns: new PatternCache('full'),
    };
    this.reconciler = new ReplicatorReconciler({
      api,
      settings: this.settings,
      kinds: runReplicators.map((kind) => REPLICATED_KINDS[kind]),
      namespaces: inventory.namespaces,
      observed: ({ kind }, namespace, name) => inventory.objects.get(resourceKey(api.cluster, kind, namespace, name)),
      recordEvent: () => undefined,
      onLimitChange,
    });
  }

  *rules(): Iterable<RuleKey> {
    for (const key of this.#inventory.objects.keys()) {
      const rule = this.ruleOf(key);
      if (rule !== undefined) yield rule;
    }
  }

  ruleOf(object: ResourceKey): RuleKey | undefined {
    return this.reconciler.ruleOf(object);
  }

  titleOf(rule: RuleKey): string {
    return rule.slice(REPLICATOR_CONTROLLER.length + 1).replace('/', ' ');
  }

  /** The rule in the annotations of an object, or its refusal. */
  replicationRuleOf(key: ResourceKey, { annotations }: Observed): ReplicationRule | undefined {
    const rule = this.ruleOf(key);
    const refusal = rule === undefined ? undefined : this.reconciler.refusalOf(rule);
    if (refusal !== undefined) return { kind: 'broken', refusal };
    return readRule(this.settings, parseResourceKey(key), annotations);
  }

  problemsOf(object: ResourceKey): readonly string[] {
    const observed = this.#inventory.objects.get(object);
    if (observed === undefined || this.ruleOf(object) === undefined) return [];
    const replication = this.replicationRuleOf(object, observed);
    return replication?.kind === 'broken' ? [replication.refusal.message] : [];
  }

  async status(snapshot: Snapshot, isIncluded: (namespace: string) => boolean): Promise<ControllerStatus> {
    return await replicatorStatus(snapshot, this, isIncluded);
  }
}
