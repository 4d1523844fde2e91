/** The SyncSecrets that are rules of one controller: their watch and store, and the writes of finalizers and status. */
import type { KubeObject } from '../../kube/api.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import { KeyLists } from '../../copy/model/observed.ts';
import { namespaceOf, type RuleKey, ruleName } from '../../copy/model/keys.ts';
import type { Counter, Histogram, MetricRegistry } from '../../observe/metrics/metric-registry.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { ControllerContext } from '../common/context.ts';
import { CrdDiagnosis } from '../common/crd-diagnosis.ts';
import { RuleClient } from '../common/rules/rule-client.ts';
import { nextCondition, type RuleEvent, RuleStatuses, sameConditions } from '../common/rules/rule-statuses.ts';
import { RuleStore } from '../common/rules/rule-store.ts';
import {
  ORIGINAL_FINALIZER,
  OWN_FINALIZERS,
  SYNC_SECRET,
  SYNC_SECRET_CRD_ADVICE,
  SYNC_SECRET_FINALIZER,
  SYNCED_CONDITION,
  type SyncSecretStatus,
} from './api.ts';
import { MAX_TEXT, MORE_FINALIZERS, ruleOf, ruleVersion, type SyncSecretRule } from './rules/rule.ts';
import type { SyncState } from './rules/status.ts';

export interface SyncSecretsOptions {
  /** As in the names of the controller, of its metrics, and of the source of its events. */
  readonly role: 'ccm' | 'manager';
  /** Whether an object is a rule of this controller. */
  readonly isRule: (rule: SyncSecretRule) => boolean;
  readonly context: Pick<ControllerContext, 'recordEvent'> & {
    readonly engine: Pick<ControllerContext['engine'], 'enqueueRule' | 'enqueueStatus'>;
    readonly cluster: Pick<ControllerContext['cluster'], 'api'> & {
      readonly store: (kind: typeof SYNC_SECRET) => Pick<ReturnType<ControllerContext['cluster']['store']>, 'hold'>;
    };
    readonly clock: Pick<ControllerContext['clock'], 'now' | 'monotonic'>;
    readonly metrics: Pick<ControllerContext['metrics'], 'registry'>;
  };
}

/** Not `FIELD_MANAGER`, because a SyncSecret may be a copy as well: see `RuleClient`. */
const RULES_MANAGER = 'keyferry-rules';

export class SyncSecrets {
  readonly store: RuleStore<SyncSecretRule>;
  readonly metrics: SyncSecretMetrics;
  readonly #options: SyncSecretsOptions;
  readonly #client: RuleClient;
  readonly #lists = new KeyLists();
  readonly #statuses: RuleStatuses<SyncSecretRule, SyncSecretStatus>;

  constructor(options: SyncSecretsOptions) {
    this.#options = options;
    const { role, isRule, context } = options;
    const { engine, cluster, clock } = context;
    const metrics = (this.metrics = new SyncSecretMetrics(context.metrics.registry, role, () => clock.monotonic()));
    this.store = new RuleStore({
      controller: `syncsecret-${role}`,
      toRule: (object) => {
        const rule = ruleOf(object, this.#lists);
        return isRule(rule) ? rule : undefined;
      },
      versionOf: ruleVersion,
      onChange: (rule, initial) => {
        metrics.started(rule);
        engine.enqueueRule(rule, initial ? 'low' : 'normal');
      },
      onSameVersion: (rule, before, after) => {
        if (this.#statuses.reported(rule, before, after)) engine.enqueueStatus(rule);
      },
    });
    this.#client = new RuleClient({
      api: cluster.api,
      kind: SYNC_SECRET,
      store: { storeResponse: (object) => this.#storeMetadata(object) },
      metadataOnly: true,
      onPrepared: (object) => cluster.store(SYNC_SECRET).hold(object),
      fieldManager: RULES_MANAGER,
    });
    this.#statuses = new RuleStatuses({
      client: this.#client,
      store: this.store,
      isSame: sameStatus,
      now: () => clock.now(),
      recordEvent: ({ metadata: { name, namespace = '', uid } }, event) => {
        const subject = { apiVersion: SYNC_SECRET.apiVersion, kind: SYNC_SECRET.kind, namespace, name, uid };
        context.recordEvent(`kubelb-${role}`, { subject, ...event });
      },
    });
  }

  /** The version of a rule on the server; `undefined`: the object is not a rule. @throws ApiError */
  async readVersion(rule: RuleKey, signal: AbortSignal): Promise<string | undefined> {
    return this.store.versionOf(await this.#client.get(ruleName(rule), signal));
  }

  /** Adds the finalizer in place of KubeLB's, and annotations in the same write. Does nothing if the object has them or is being deleted. @throws ApiError */
  async addFinalizer(
    rule: RuleKey,
    annotations: Readonly<Record<string, string>> | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const object = this.store.get(rule);
    if (object === undefined || object.metadata.deletionTimestamp !== undefined) return;
    const whole = await this.#withFinalizers(rule, object, signal);
    const replaces = [ORIGINAL_FINALIZER];
    await this.#client.addFinalizer(whole, SYNC_SECRET_FINALIZER, { annotations, replaces }, signal);
  }

  /** Removes the finalizers, also that of KubeLB. @param annotations to be removed in the same write @throws ApiError */
  async removeFinalizer(rule: RuleKey, annotations: readonly string[], signal: AbortSignal): Promise<void> {
    const object = this.store.get(rule);
    if (object === undefined) return;
    const removed = annotations.length === 0 ? undefined : Object.fromEntries(annotations.map((key) => [key, null]));
    const whole = await this.#withFinalizers(rule, object, signal);
    await this.#client.removeFinalizers(whole, [...OWN_FINALIZERS], { annotations: removed }, signal);
  }

  /** The object with all its finalizers, which are replaced as one list. @throws ApiError */
  async #withFinalizers(rule: RuleKey, object: SyncSecretRule, signal: AbortSignal): Promise<KubeObject> {
    if (!object.metadata.finalizers.includes(MORE_FINALIZERS)) return object;
    const { metadata, ...rest } = await this.#client.get(ruleName(rule), signal);
    // Another object of the name may have been created meanwhile: then the write fails, because the patch requires this uid.
    return { ...rest, metadata: { ...metadata, uid: object.metadata.uid } };
  }

  /**
   * Writes phase and condition if they differ, and a Warning event when the condition turns False or has another cause.
   * @returns when to try again, if somebody else keeps changing them
   * @throws ApiError
   */
  async writeStatus(
    rule: RuleKey,
    { phase, isUnderWay, ...state }: SyncState,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const object = this.store.get(rule);
    if (object === undefined) return undefined;
    const { generation } = object.metadata;
    const [before] = this.#statuses.latest(rule, object).conditions ?? [];
    const next = { type: SYNCED_CONDITION, ...state };
    const condition = nextCondition(before, next, generation, this.#options.context.clock.now(), MAX_TEXT);
    const { status, reason, message } = condition;
    const isNews = before?.status !== status || before.reason !== reason || before.message !== message;
    // A SyncSecret that waits for its turn is no reason for a warning.
    const isWarning = status === 'False' && isUnderWay !== true && isNews;
    const events: RuleEvent[] = isWarning ? [{ type: 'Warning', reason, message }] : [];
    const observed = generation === undefined ? {} : { observedGeneration: generation };
    return await this.#statuses.write(
      rule,
      object,
      { status: { phase, ...observed, conditions: [condition] }, events },
      signal,
    );
  }

  /** Records a Warning event, and only once for all retries. */
  warn(rule: RuleKey, reason: string, message: string): void {
    const object = this.store.get(rule);
    if (object !== undefined) this.#statuses.record(rule, object, [{ type: 'Warning', reason, message }]);
  }

  /** The response to most own writes has no values, and so neither type nor `immutable`. Without a new generation these are the same. */
  #storeMetadata(object: KubeObject): void {
    const { namespace = '', name, generation } = object.metadata;
    const stored = this.store.get(this.store.key(namespace, name));
    if (stored?.metadata.generation === generation) this.store.storeResponse({ ...stored, ...object });
  }

  /** The rule is gone. */
  forget(rule: RuleKey): void {
    this.metrics.forget(rule);
    this.#statuses.forget(rule);
  }
}

function sameStatus(a: SyncSecretStatus, b: SyncSecretStatus): boolean {
  return (
    a.phase === b.phase && a.observedGeneration === b.observedGeneration && sameConditions(a.conditions, b.conditions)
  );
}

/** Watches all SyncSecrets of the cluster that the process runs in. @param isSource they are copied, and are not only targets */
export function watchSyncSecrets({ cluster, config }: ControllerContext, sink: WatchSink, isSource = true): WatchGroup {
  const diagnosis = new CrdDiagnosis({
    api: cluster.api,
    kind: SYNC_SECRET,
    advice: SYNC_SECRET_CRD_ADVICE,
    isOptional: false,
    isAlone: config.controllers.every((name) => name.startsWith('syncsecret-')),
  });
  return cluster.watchContents(SYNC_SECRET, { isSource }, sink, diagnosis);
}

/** Seconds, as in KubeLB. */
const BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** The metrics of KubeLB's SyncSecret controllers with the same names, labels and buckets. */
export class SyncSecretMetrics {
  readonly #total: Counter<'namespace' | 'result'>;
  readonly #seconds: Histogram<'namespace'>;
  /** Start of each reconciliation under way, monotonic ms. */
  readonly #started = new Map<RuleKey, number>();
  readonly #monotonic: () => number;

  /** @param role as in the names of the metrics */
  constructor(registry: MetricRegistry, role: 'ccm' | 'manager', monotonic: () => number) {
    const name = `kubelb_${role}_sync_secret_reconcile`;
    this.#total = registry.counter(`${name}_total`, 'Reconciliations of SyncSecrets.', ['namespace', 'result']);
    this.#seconds = registry.histogram(
      `${name}_duration_seconds`,
      'Time from a change of a SyncSecret to its result.',
      ['namespace'],
      BUCKETS,
    );
    this.#monotonic = monotonic;
  }

  started(rule: RuleKey): void {
    if (!this.#started.has(rule)) this.#started.set(rule, this.#monotonic());
  }

  /** The result of the last `started`. Later calls do nothing until the next one. */
  finished(rule: RuleKey, result: 'success' | 'error'): void {
    const started = this.#started.get(rule);
    if (started === undefined) return;
    this.#started.delete(rule);
    const namespace = namespaceOf(rule);
    this.#total.inc({ namespace, result });
    this.#seconds.observe({ namespace }, (this.#monotonic() - started) / 1000);
  }

  forget(rule: RuleKey): void {
    this.#started.delete(rule);
  }
}
