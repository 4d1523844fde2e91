/**
 * The secret synchronizer makes a SyncSecret of each labelled Secret in a tenant cluster. It also removes KubeLB's
 * finalizer from these Secrets. It reads no other Secrets. `rules/synchronizer-rule-set.ts` turns them into claims.
 */
import type { Controller, GoneRule, Report, RuleChange, RuleFacts, RuleKind } from '../../copy/engine/controller.ts';
import { RuleStore } from '../../copy/engine/life/rule-store.ts';
import { isUnderWay } from '../../copy/model/claim.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { KubeObject } from '../../kube/api.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL, ORIGINAL_FINALIZER } from './api.ts';
import {
  isOfKubeLb,
  type SecretRule,
  secretRule,
  secretVersion,
  SYNCHRONIZER_CONTROLLER,
  SynchronizerRules,
} from './rules/synchronizer-rule-set.ts';
import { SYNC_SECRET_ENTRY, watchSyncSecrets } from './sync-secret-rules.ts';

export const secretSynchronizer: ControllerEntry = {
  name: SYNCHRONIZER_CONTROLLER,
  component: 'kubelb-ccm',
  ...SYNC_SECRET_ENTRY,
  create: (context) => new Synchronizer(context),
};

/** The offered Secrets, and those that still have KubeLB's finalizer. No watch reports a Secret without the label. */
export class OfferedSecrets extends RuleStore<SecretRule> {
  readonly #onRead: ((rule: RuleKey) => void) | undefined;

  /** @param onRead called when a Secret was read from the server */
  constructor(onChange?: (rule: RuleKey) => void, onRead?: (rule: RuleKey) => void) {
    super({
      controller: SYNCHRONIZER_CONTROLLER,
      toRule: secretRule,
      versionOf: secretVersion,
      onChange,
    });
    this.#onRead = onRead;
  }

  /** Takes a Secret that was read. If it has KubeLB's finalizer and no longer the label, it becomes a rule. */
  override versionOf(object: KubeObject): string | undefined {
    const { name, namespace = '' } = object.metadata;
    this.#onRead?.(this.key(namespace, name));
    if (secretRule(object)?.isOffered === false) this.put(object);
    return super.versionOf(object);
  }

  /**
   * The rule of a Secret that is no longer offered ends with KubeLB's finalizer. No watch reports this; or the watch has
   * reported the end of the Secret before, with its last content, which still has the finalizer.
   */
  override storeResponse(object: KubeObject): void {
    super.storeResponse(object);
    const { name, namespace = '', uid } = object.metadata;
    const key = this.key(namespace, name);
    const stored = this.get(key);
    const isLeft = stored?.isOffered === false && stored.metadata.uid === uid;
    if (isLeft && secretRule(object) === undefined) this.end(key, stored, true);
  }

  /** Receives the events of the watch of labelled Secrets. If a Secret loses the label, it reports a deletion. */
  get labelled(): WatchSink {
    return {
      ...this.sink,
      remove: (object) => {
        const withoutLabel = { ...object, metadata: { ...object.metadata, labels: {} } };
        // A Secret that only lost its label stays a rule if it has KubeLB's finalizer, which would block its deletion.
        if (secretRule(withoutLabel) === undefined) this.sink.remove(object);
        else this.put(withoutLabel);
      },
    };
  }
}

export class Synchronizer implements Controller<SecretRule, object> {
  readonly rules: SynchronizerRules;
  readonly store: OfferedSecrets;
  readonly kindOf = (): RuleKind => SECRET;
  readonly #context: ControllerContext;
  /** Rules whose Secret must be read, because KubeLB has made a SyncSecret of it: it may have KubeLB's finalizer. */
  readonly #unread = new Set<RuleKey>();

  constructor(context: ControllerContext) {
    this.#context = context;
    const { engine, scope } = context;
    this.store = new OfferedSecrets(
      (rule) => engine.enqueueRule(rule),
      (rule) => this.#unread.delete(rule),
    );
    this.rules = new SynchronizerRules(scope, this.store);
  }

  async open(): Promise<void> {
    const { engine, cluster } = this.#context;
    const labelSelector = `${MANAGED_BY_LABEL}=${MANAGED_BY_KUBELB}`;
    // The SyncSecrets that KubeLB made, under the rule keys of their Secrets.
    const ofKubeLb = new RuleStore({
      controller: SYNCHRONIZER_CONTROLLER,
      toRule: keptOfKubeLb,
      versionOf: ({ metadata: { uid } }) => uid,
      onChange: (rule, found) => {
        if (found === undefined) this.#unread.delete(rule);
        else this.#unread.add(rule);
        if (found !== undefined) engine.enqueueRule(rule);
      },
    });
    // Each change of a labelled Secret enqueues its rule.
    const labelled = cluster.watchContents(SECRET, { labelSelector, isSource: () => true }, this.store.labelled);
    // Each SyncSecret of KubeLB enqueues the rule of its Secret.
    const syncSecrets = watchSyncSecrets(this.#context, ofKubeLb.sink, false);
    await Promise.all([labelled.synced, syncSecrets.synced]);
  }

  /** A Secret that may have KubeLB's finalizer is read. Until then, the SyncSecret that KubeLB made of it is kept. */
  due(key: RuleKey, secret: SecretRule | undefined): RuleChange | undefined {
    return secret === undefined && this.#unread.has(key) ? { read: true } : undefined;
  }

  /** A Secret has no status, and the status of its SyncSecret is written by the CCM. So a problem becomes an event. */
  report(facts: RuleFacts<SecretRule, object> | GoneRule): Report | undefined {
    if (facts.rule === undefined) return undefined;
    const { rule: secret, claims, failure } = facts;
    const outcome = claims[0]?.outcome;
    const isRefused = secret.isOffered && (outcome?.state === 'conflict' || outcome?.state === 'error');
    const problem = failure ?? (isRefused ? outcome : undefined);
    const remarks = problem ? [{ type: 'Warning', reason: problem.reason, message: problem.message } as const] : [];
    // Only now: while the SyncSecret has no mark yet, only the finalizer shows that it was made of this Secret.
    const isTried = outcome !== undefined && !isUnderWay(outcome);
    const mayGo = isTried && secret.metadata.finalizers !== undefined;
    return { remarks, ...(mayGo ? { remove: { finalizers: [ORIGINAL_FINALIZER] } } : {}) };
  }
}

/** The metadata that is kept of a SyncSecret that KubeLB made; `undefined`: KubeLB did not make it. */
function keptOfKubeLb(object: KubeObject): KubeObject | undefined {
  if (!isOfKubeLb(object)) return undefined;
  const { name, namespace = '', uid, resourceVersion, creationTimestamp } = object.metadata;
  return { metadata: { name, namespace, uid, resourceVersion, creationTimestamp } };
}
