/**
 * The secret synchronizer makes a SyncSecret of each labelled Secret in a tenant cluster. It also removes KubeLB's
 * finalizer from these Secrets. It reads no other Secrets. `rules/synchronizer-rule-set.ts` turns them into claims.
 */
import type { Entry } from '../../copy/book/claim-book.ts';
import type { Controller, RuleProgress, RuleReconciler } from '../../copy/engine/controller.ts';
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
      // Each change of a labelled Secret enqueues its rule.
      cluster.watchContents(SECRET, { labelSelector, isSource: () => true }, labelledSecretSink(reconciler.secrets)),
      // Each SyncSecret of KubeLB enqueues the rule of its Secret.
      watchSyncSecrets(context, ofKubeLb.sink, false),
    );
  };
  return { reconciler, open };
}

/** The metadata that is kept of a SyncSecret that KubeLB made; `undefined`: KubeLB did not make it. */
function keptOfKubeLb(object: KubeObject): KubeObject | undefined {
  if (!isOfKubeLb(object)) return undefined;
  const { name, namespace = '', uid, resourceVersion, creationTimestamp } = object.metadata;
  return { metadata: { name, namespace, uid, resourceVersion, creationTimestamp } };
}

/** Stores the events of the watch of labelled Secrets. If a Secret loses the label, the watch reports a deletion. */
export function labelledSecretSink(secrets: RuleStore<SecretRule>): WatchSink {
  return {
    ...secrets.sink,
    remove: (object) => {
      const withoutLabel = { ...object, metadata: { ...object.metadata, labels: {} } };
      // A Secret that only lost its label stays a rule if it has KubeLB's finalizer, which would block its deletion.
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
      // The read brings only metadata, so `immutable` comes from the store.
      return live && secretVersion({ ...live, immutable: secrets.get(rule)?.immutable === true });
    });
  }

  /** Lets `prepare` read the Secret before the next evaluation of its rule: it may have KubeLB's finalizer. */
  expectFinalizer(rule: RuleKey): void {
    this.#unread.add(rule);
  }

  async listed(_rule: RuleKey, signal: AbortSignal): Promise<void> {
    await this.watches.listed(signal);
  }

  needsPreparation(rule: RuleKey): boolean {
    return this.#unread.has(rule);
  }

  /** Reads a Secret that may have KubeLB's finalizer. Until then, the SyncSecret that KubeLB made of it is kept. */
  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    try {
      if (this.secrets.get(rule) === undefined) await this.#read(rule, signal);
    } catch (error) {
      if (!isObjectGone(error, parseRuleKey(rule).name)) throw error;
    }
    this.#unread.delete(rule);
  }

  /** Reads a Secret. If it has KubeLB's finalizer and no longer the label, it becomes a rule. @throws ApiError */
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
    // No watch reports a Secret without the label. So its rule ends here, if no new Secret has taken the name.
    const latest = this.secrets.get(rule);
    if (latest?.isOffered === false && latest.metadata.uid === secret.metadata.uid) this.secrets.sink.remove(latest);
  }

  /** Records an event for a problem. A Secret has no status, and the status of its SyncSecret is written by the CCM. */
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
    // Only now: while the SyncSecret has no mark yet, only the finalizer shows that it was made of this Secret.
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
