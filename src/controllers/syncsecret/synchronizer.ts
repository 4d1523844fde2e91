/**
 * The secret synchronizer makes a SyncSecret of each labelled Secret in a tenant cluster. It removes the finalizer that
 * KubeLB puts on Secrets, and reads no other Secrets. What the Secrets mean is in `rules/synchronizer-rule-set.ts`.
 */
import type { Entry } from '../../copy/book/claim-book.ts';
import type { Controller, Preparation, RuleProgress, RuleReconciler } from '../../copy/engine/controller.ts';
import type { Cause } from '../../copy/model/cause.ts';
import { isUnderWay, type Outcome } from '../../copy/model/claim.ts';
import { parseRuleKey, type RuleKey, ruleName } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { KubeObject } from '../../kube/api.ts';
import { isObjectGone } from '../../kube/errors.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import { AwaitedWatches } from '../common/awaited-watches.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { liveRules, RuleClient } from '../common/rules/rule-client.ts';
import { RuleStore } from '../common/rules/rule-store.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL, ORIGINAL_FINALIZER } from './api.ts';
import {
  isOfKubeLb,
  type SecretRule,
  secretRule,
  secretVersion,
  SYNCHRONIZER_CONTROLLER,
  SynchronizerRules,
} from './rules/synchronizer-rule-set.ts';
import { SYNC_SECRET_ENTRY, watchSyncSecrets } from './sync-secret-reconciler.ts';

export const secretSynchronizer: ControllerEntry = {
  name: SYNCHRONIZER_CONTROLLER,
  ...SYNC_SECRET_ENTRY,
  create,
};

/** The source component of the events. */
const COMPONENT = 'kubelb-ccm';

function create(context: ControllerContext): Controller {
  const { engine, cluster } = context;
  const reconciler = new SynchronizerReconciler(context);
  /** The SyncSecrets that KubeLB made, under the rule keys of their Secrets. */
  const ofKubeLb = new RuleStore({
    controller: SYNCHRONIZER_CONTROLLER,
    toRule: keptOfKubeLb,
    versionOf: ({ metadata: { uid } }) => uid,
    onChange: (rule, _initial, _before, found) => {
      if (found === undefined) return;
      reconciler.expectFinalizer(rule);
      engine.enqueueRule(rule, 'low');
    },
  });
  const labelSelector = `${MANAGED_BY_LABEL}=${MANAGED_BY_KUBELB}`;
  const open = (): void => {
    reconciler.watches.add(
      // Each change of a labelled Secret enqueues it.
      cluster.watchContents(SECRET, { labelSelector, isSource: () => true }, labelledSecretSink(reconciler.secrets)),
      // Each SyncSecret of KubeLB enqueues the rule of its Secret.
      watchSyncSecrets(context, ofKubeLb.sink, () => false),
    );
  };
  return { reconciler, open };
}

/** The part that is kept of a SyncSecret of KubeLB. */
function keptOfKubeLb(object: KubeObject): KubeObject | undefined {
  if (!isOfKubeLb(object)) return undefined;
  const { name, namespace = '', uid, resourceVersion, creationTimestamp } = object.metadata;
  return { metadata: { name, namespace, uid, resourceVersion, creationTimestamp } };
}

/** Stores the events of the watch of labelled Secrets. For such a watch, a lost label looks like a deletion. */
export function labelledSecretSink(secrets: RuleStore<SecretRule>): WatchSink {
  return {
    ...secrets.sink,
    remove: (object) => {
      const withoutLabel = { ...object, metadata: { ...object.metadata, labels: {} } };
      // A Secret that lost its label still exists, and KubeLB's finalizer would block its deletion forever.
      if (secretRule(withoutLabel) === undefined) secrets.sink.remove(object);
      else secrets.put(withoutLabel);
    },
  };
}

export class SynchronizerReconciler implements RuleReconciler {
  readonly rules: SynchronizerRules;
  readonly secrets: RuleStore<SecretRule>;
  readonly watches = new AwaitedWatches();
  readonly getLive: RuleReconciler['getLive'];
  readonly #context: ControllerContext;
  /** Reads and writes only metadata of Secrets. */
  readonly #client: RuleClient;
  /** The last warning about each rule. */
  readonly #warned = new Map<RuleKey, string>();
  /** Rules whose Secret must be read once, because KubeLB has made a SyncSecret of it. */
  readonly #unread = new Set<RuleKey>();

  constructor(context: ControllerContext) {
    this.#context = context;
    const { engine, cluster, scope } = context;
    const secrets = (this.secrets = new RuleStore({
      controller: SYNCHRONIZER_CONTROLLER,
      toRule: secretRule,
      versionOf: secretVersion,
      onChange: (rule, initial) => engine.enqueueRule(rule, initial ? 'low' : 'normal'),
    }));
    this.rules = new SynchronizerRules(scope, secrets);
    this.#client = new RuleClient({ api: cluster.api, kind: SECRET, metadataOnly: true });
    this.getLive = liveRules(async (rule, signal) => {
      const live = await this.#read(rule, signal);
      // Metadata does not include this field.
      return live && secretVersion({ ...live, immutable: secrets.get(rule)?.immutable === true });
    });
  }

  /** Reads the Secret of this rule before its next evaluation, if the Secret is not offered. */
  expectFinalizer(rule: RuleKey): void {
    this.#unread.add(rule);
  }

  async listed(_rule: RuleKey, signal: AbortSignal): Promise<void> {
    await this.watches.listed(signal);
  }

  preparationOf(rule: RuleKey): Preparation | undefined {
    return this.#unread.has(rule) ? 'beside' : undefined;
  }

  /** Reads a Secret that may have KubeLB's finalizer. Until then, the SyncSecret of KubeLB is kept. */
  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    try {
      if (this.secrets.get(rule) === undefined) await this.#read(rule, signal);
    } catch (error) {
      if (!isObjectGone(error, parseRuleKey(rule).name)) throw error;
    }
    this.#unread.delete(rule);
  }

  /** Reads a Secret. It becomes a rule if it has KubeLB's finalizer and is not offered. @throws ApiError */
  async #read(rule: RuleKey, signal: AbortSignal): Promise<SecretRule | undefined> {
    const object = await this.#client.get(ruleName(rule), signal);
    const read = secretRule(object);
    if (read?.isOffered === false) this.secrets.put(object);
    return read;
  }

  /** Removes KubeLB's finalizer from a Secret. @throws ApiError, ConnectionError */
  async #removeFinalizer(rule: RuleKey, secret: SecretRule, signal: AbortSignal): Promise<void> {
    try {
      const object = await this.#client.get(ruleName(rule), signal);
      if (object.metadata.uid === secret.metadata.uid) {
        await this.#client.removeFinalizers(object, [ORIGINAL_FINALIZER], {}, signal);
      }
    } catch (error) {
      if (!isObjectGone(error, secret.metadata.name)) throw error;
    }
    // No watch reports a Secret without the label, so its rule ends here, unless a new Secret has the name.
    const latest = this.secrets.get(rule);
    if (latest?.isOffered === false && latest.metadata.uid === secret.metadata.uid) this.secrets.sink.remove(latest);
  }

  /** The CCM writes the status of SyncSecrets, and Secrets have none. So a problem becomes an event. */
  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    { evaluated, failure }: RuleProgress,
    signal: AbortSignal,
  ): Promise<undefined> {
    const secret = this.secrets.get(rule);
    if (secret === undefined) {
      this.#warned.delete(rule);
      return;
    }
    const [entry] = evaluated === secretVersion(secret) ? entries : [];
    const problem = failure ?? (secret.isOffered ? problemOf(entry?.outcome) : undefined);
    if (problem === undefined) {
      this.#warned.delete(rule);
    } else if (this.#warned.get(rule) !== problem.message) {
      this.#warned.set(rule, problem.message);
      this.#warn(secret, problem);
    }
    // Only now: until the SyncSecret has its mark, the finalizer alone shows that both belong together.
    const isTried = entry !== undefined && !isUnderWay(entry.outcome);
    if (isTried && secret.metadata.finalizers !== undefined) await this.#removeFinalizer(rule, secret, signal);
  }

  /** Warns that the Secret has no SyncSecret, or that the SyncSecret cannot follow its changes. */
  #warn({ metadata: { name, namespace = '', uid } }: SecretRule, { reason, message }: Cause): void {
    const subject = { apiVersion: SECRET.apiVersion, kind: SECRET.kind, namespace, name, uid };
    this.#context.recordEvent(COMPONENT, { subject, type: 'Warning', reason, message });
  }
}

function problemOf(outcome: Outcome | undefined): Cause | undefined {
  return outcome?.state === 'conflict' || outcome?.state === 'error' ? outcome : undefined;
}
