/**
 * The common part of CCM and manager: each SyncSecret has one claim, from itself to its one target, and is released when it is deleted. The
 * roles differ in the target, its shape and marks, and in the status.
 */
import type { Cause } from '../../copy/model/cause.ts';
import type { Outcome, Shape } from '../../copy/model/claim.ts';
import { resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import type { Preparation, RuleProgress, RuleReconciler } from '../../copy/rule-reconciler.ts';
import type { Evaluation, RuleSet } from '../../copy/model/rule-set.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { Steps } from '../../runtime/slices.ts';
import type { DeletionOptions } from '../common/deletion.ts';
import { liveRules } from '../common/live-rules.ts';
import { SYNC_SECRET_KIND } from './api.ts';
import { SyncSecretDeletions, type SyncSecretDeletionsOptions } from './deletion.ts';
import { SYNC_SECRET } from './kind.ts';
import type { SyncSecretMetrics } from './metrics.ts';
import { Pending } from './pending.ts';
import { ruleVersion, type SyncSecretRule } from './rule.ts';
import type { SyncSecrets } from './sync-secrets.ts';
import type { Travel } from './travel.ts';

export interface SyncSecretReconcilerOptions extends DeletionOptions {
  /** Name of the cluster of the SyncSecrets. */
  readonly cluster: string;
  readonly syncSecrets: SyncSecrets;
  readonly metrics: SyncSecretMetrics | undefined;
  readonly travel: Travel;
  /** Settles when all is known that an evaluation needs: at least the lists of SyncSecrets and of their targets here. */
  readonly synced: () => Promise<unknown>;
}

/** The result of the work on an active SyncSecret, for its status. */
export interface Progress {
  /** Of its claim. */
  readonly entry: Entry | undefined;
  /** As in `entry`; `undefined`: it is of an earlier version of the SyncSecret, or there is none. */
  readonly outcome: Outcome | undefined;
  /** `prepare` or `evaluate` fails. */
  readonly failure: Cause | undefined;
}

export abstract class SyncSecretReconciler implements RuleReconciler, RuleSet {
  readonly rules = this;
  abstract readonly name: string;
  readonly getLive: RuleReconciler['getLive'];
  protected readonly pending = new Pending();
  readonly #options: SyncSecretReconcilerOptions;
  readonly #deletions: SyncSecretDeletions;

  constructor(
    options: SyncSecretReconcilerOptions,
    deletion: Pick<SyncSecretDeletionsOptions, 'target' | 'marksOf' | 'unreachable'>,
  ) {
    this.#options = options;
    const { syncSecrets } = options;
    this.#deletions = new SyncSecretDeletions({ ...options, ...deletion, pending: this.pending });
    this.getLive = liveRules(async (rule, signal) => await syncSecrets.readVersion(rule, signal));
  }

  abstract preparationOf(rule: RuleKey): Preparation | undefined;
  abstract prepare(rule: RuleKey, signal: AbortSignal): Promise<void>;
  abstract ownerOf(observed: Observed, target: ResourceKey): RuleKey | undefined;
  abstract orphanPolicy(rule: RuleKey, observed: Observed): 'delete' | 'keep';

  /** Whether the controller has to do with a SyncSecret now. */
  protected abstract isServed(rule: RuleKey, object: SyncSecretRule): boolean;
  /** Whether a SyncSecret is to be copied. Otherwise it is released. */
  protected abstract isActive(object: SyncSecretRule): boolean;
  protected abstract targetOf(object: SyncSecretRule): ResourceKey;
  protected abstract shapeOf(rule: RuleKey, object: SyncSecretRule): Shape;
  /** Writes the status of an active SyncSecret. */
  protected abstract report(
    rule: RuleKey,
    object: SyncSecretRule,
    progress: Progress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined>;

  async listed(_rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    await orAborted(this.#options.synced(), signal, 'waiting for the list of SyncSecrets');
    return undefined;
  }

  // eslint-disable-next-line require-yield -- nothing here takes long
  *evaluate(rule: RuleKey): Steps<Evaluation | undefined> {
    const { syncSecrets, cluster } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined || !this.isServed(rule, object)) return undefined;
    const { namespace = '', name, uid, generation: sourceGeneration, creationTimestamp } = object.metadata;
    const title = `${SYNC_SECRET_KIND} ${namespace}/${name}`;
    const owner = { key: rule, title, rank: `${creationTimestamp} ${uid}` };
    const target = this.targetOf(object);
    const shape = this.shapeOf(rule, object);
    const common = { owner, version: ruleVersion(object), sources: [] };
    if (!this.isActive(object)) {
      return { ...common, claims: [{ owner, mode: 'release', target, source: undefined, shape }] };
    }
    const source = resourceKey(cluster, SYNC_SECRET.kind, namespace, name);
    return { ...common, claims: [{ owner, target, mode: 'own', source, isRuleSource: true, sourceGeneration, shape }] };
  }

  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    { evaluated, failure }: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, metrics } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined) {
      syncSecrets.forget(rule);
      metrics?.forget(rule);
      this.pending.forget(rule);
      this.#deletions.forget(rule);
      return undefined;
    }
    // Without the finalizer nothing was done for it.
    const isOutdated = evaluated !== ruleVersion(object) || this.preparationOf(rule) === 'first';
    if (!this.isActive(object)) {
      return isOutdated ? undefined : await this.#deletions.update(rule, object, entries, signal);
    }
    this.#deletions.forget(rule);
    if (isOutdated && failure === undefined) return undefined;
    const [entry] = entries;
    return await this.report(
      rule,
      object,
      { entry, outcome: isOutdated ? undefined : entry?.outcome, failure },
      signal,
    );
  }
}
