/** Turns labelled Secrets into claims on SyncSecrets of the same name. */
import type { Cause } from '../../copy/model/cause.ts';
import { type Claim, isUnderWay, type Outcome } from '../../copy/model/claim.ts';
import { parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import { isMarkedElsewhere } from '../../copy/plan/marks.ts';
import type { Preparation, RuleProgress, RuleReconciler } from '../../copy/rule-reconciler.ts';
import type { Evaluation, RuleSet } from '../../copy/model/rule-set.ts';
import type { KubeObject, ObjectMeta } from '../../kube/api.ts';
import { isObjectGone } from '../../kube/errors.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { Steps } from '../../runtime/slices.ts';
import { liveRules } from '../common/live-rules.ts';
import type { RuleClient } from '../common/rule-client.ts';
import { ruleName, type RuleStore } from '../common/rule-store.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL, ORIGIN_LABELS, ORIGINAL_FINALIZER, SYNC_SECRET_KIND } from './api.ts';
import { SYNC_SECRET } from './kind.ts';
import { COPY_LABEL, COPY_OF_SYNC_SECRET, originOf, SECRET_ANNOTATION } from './marks.ts';
import { ManifestShape, MarkShape } from './shapes.ts';
import type { Travel } from './travel.ts';

export const SYNCHRONIZER_CONTROLLER = 'syncsecret-synchronizer';

/** The part of a Secret that is kept. */
export interface SecretRule {
  readonly metadata: Pick<
    ObjectMeta,
    'name' | 'namespace' | 'uid' | 'resourceVersion' | 'creationTimestamp' | 'finalizers'
  >;
  readonly immutable: boolean;
  /** `false`: it is no longer offered, and still has the finalizer of KubeLB. */
  readonly isOffered: boolean;
}

export interface SynchronizerReconcilerOptions {
  /** Name of the tenant cluster. */
  readonly cluster: string;
  readonly secrets: RuleStore<SecretRule>;
  /** Of the Secrets' metadata. */
  readonly client: RuleClient;
  readonly travel: Travel;
  /** Settles when the Secrets and the SyncSecrets have been listed. */
  readonly synced: () => Promise<unknown>;
  /** The Secret has no SyncSecret, or the SyncSecret cannot follow it. */
  readonly warn: (secret: SecretRule, cause: Cause) => void;
}

/** The part of a Secret that is kept. `undefined`: it is not offered, and does not have the finalizer of KubeLB. */
export function secretRule(object: KubeObject & { readonly immutable?: boolean }): SecretRule | undefined {
  const { metadata, immutable } = object;
  const { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp, finalizers, labels } = metadata;
  const isLabelled = labels?.[MANAGED_BY_LABEL] === MANAGED_BY_KUBELB;
  const isOffered = isLabelled && deletionTimestamp === undefined && !isOfManager(metadata);
  const hasFinalizer = finalizers?.includes(ORIGINAL_FINALIZER) === true;
  if (!isOffered && !hasFinalizer) return undefined;
  return {
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      uid,
      resourceVersion,
      creationTimestamp,
      ...(hasFinalizer ? { finalizers } : {}),
    },
    immutable: immutable === true,
    isOffered,
  };
}

/** Whether it is the Secret of a SyncSecret. KubeLB copies all labels, also the one that offers a Secret. */
function isOfManager(metadata: ObjectMeta): boolean {
  const { name, namespace = '', labels = {}, ownerReferences = [] } = metadata;
  if (labels[COPY_LABEL] === COPY_OF_SYNC_SECRET || originOf({ name, namespace, labels }) === 'another') return true;
  return ownerReferences.some(({ kind, uid }) => kind === SYNC_SECRET_KIND && uid === name);
}

/** Changes whenever the claims of a Secret may change. */
export function secretVersion({ metadata: { uid, finalizers }, immutable, isOffered }: SecretRule): string {
  return `${uid} ${immutable} ${isOffered} ${finalizers?.join(',') ?? ''}`;
}

/**
 * Whether KubeLB has made this SyncSecret of a Secret, and Keyferry has not adopted it: its origin labels name itself. Its Secret may have
 * lost the label while nothing was running, and then KubeLB's finalizer is still there.
 */
export function isOfKubeLb({ metadata }: KubeObject): boolean {
  return metadata.annotations?.[SECRET_ANNOTATION] === undefined && originOf(metadata) === 'itself';
}

export class SynchronizerReconciler implements RuleReconciler, RuleSet {
  readonly rules = this;
  readonly name = SYNCHRONIZER_CONTROLLER;
  readonly getLive: RuleReconciler['getLive'];
  readonly #options: SynchronizerReconcilerOptions;
  /** The last warning about each rule. */
  readonly #warned = new Map<RuleKey, string>();
  /** Rules whose Secret has to be read, because KubeLB has made a SyncSecret of it. */
  readonly #unread = new Set<RuleKey>();

  constructor(options: SynchronizerReconcilerOptions) {
    this.#options = options;
    const { secrets } = options;
    this.getLive = liveRules(async (rule, signal) => {
      const live = await this.#read(rule, signal);
      // The metadata do not have this field.
      return live && secretVersion({ ...live, immutable: secrets.get(rule)?.immutable === true });
    });
  }

  /** The Secret of this rule is read at the next evaluation, unless it is offered. */
  expectFinalizer(rule: RuleKey): void {
    this.#unread.add(rule);
  }

  async listed(_rule: RuleKey, signal: AbortSignal): Promise<void> {
    await orAborted(this.#options.synced(), signal, 'waiting for the list of Secrets');
  }

  preparationOf(rule: RuleKey): Preparation | undefined {
    return this.#unread.has(rule) ? 'beside' : undefined;
  }

  /** Until a Secret is read, it is no rule, and a SyncSecret of KubeLB without a rule is kept. */
  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    try {
      if (this.#options.secrets.get(rule) === undefined) await this.#read(rule, signal);
    } catch (error) {
      if (!isObjectGone(error, nameOf(rule))) throw error;
    }
    this.#unread.delete(rule);
  }

  /** Reads a Secret. One with KubeLB's finalizer that is not offered becomes a rule. @throws ApiError, ConnectionError */
  async #read(rule: RuleKey, signal: AbortSignal): Promise<SecretRule | undefined> {
    const { secrets, client } = this.#options;
    const object = await client.get(ruleName(rule), signal);
    const read = secretRule(object);
    if (read?.isOffered === false) secrets.put(object);
    return read;
  }

  /** Removes the finalizer that KubeLB puts on Secrets. @throws ApiError, ConnectionError */
  async #removeFinalizer(rule: RuleKey, secret: SecretRule, signal: AbortSignal): Promise<void> {
    const { secrets, client } = this.#options;
    try {
      const object = await client.get(ruleName(rule), signal);
      if (object.metadata.uid === secret.metadata.uid) {
        await client.removeFinalizers(object, [ORIGINAL_FINALIZER], {}, signal);
      }
    } catch (error) {
      if (!isObjectGone(error, secret.metadata.name)) throw error;
    }
    // No watch reports the change of a Secret without the label. Another Secret of its name may be offered meanwhile.
    const latest = secrets.get(rule);
    if (latest?.isOffered === false && latest.metadata.uid === secret.metadata.uid) secrets.sink.remove(latest);
  }

  // eslint-disable-next-line require-yield -- nothing here takes long
  *evaluate(rule: RuleKey): Steps<Evaluation | undefined> {
    const { secrets, cluster, travel } = this.#options;
    const secret = secrets.get(rule);
    if (secret === undefined) return undefined;
    const { namespace = '', name, uid, creationTimestamp } = secret.metadata;
    const owner = { key: rule, title: `Secret ${namespace}/${name}`, rank: `${creationTimestamp} ${uid}` };
    const target = resourceKey(cluster, SYNC_SECRET.kind, namespace, name);
    const source = resourceKey(cluster, SECRET.kind, namespace, name);
    const claim: Claim = secret.isOffered
      ? {
          owner,
          target,
          mode: 'own',
          source,
          isRuleSource: true,
          shape: new ManifestShape(travel, namespace, name, secret.immutable),
        }
      : { owner, target, mode: 'own', source: undefined, shape: new MarkShape(name) };
    return { owner, version: secretVersion(secret), claims: [claim], sources: [] };
  }

  ownerOf({ annotations, labels }: Observed, target: ResourceKey): RuleKey | undefined {
    const { cluster, secrets } = this.#options;
    const place = parseResourceKey(target);
    if (place.cluster !== cluster || place.kind !== SYNC_SECRET.kind) return undefined;
    if (isMarkedElsewhere(annotations, place)) return undefined;
    const isOurs = annotations[SECRET_ANNOTATION] === place.name;
    // A SyncSecret that KubeLB made: its origin labels name itself.
    const isOriginals = labels[ORIGIN_LABELS.name] !== undefined && originOf({ ...place, labels }) === 'itself';
    return isOurs || isOriginals ? secrets.key(place.namespace, place.name) : undefined;
  }

  orphanPolicy(_rule: RuleKey, { annotations }: Observed): 'delete' | 'keep' {
    return annotations[SECRET_ANNOTATION] === undefined ? 'keep' : 'delete';
  }

  /** The status of a SyncSecret is that of its CCM, and Secrets have none: a problem is an event. */
  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    { evaluated, failure }: RuleProgress,
    signal: AbortSignal,
  ): Promise<undefined> {
    const { secrets, warn } = this.#options;
    const secret = secrets.get(rule);
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
      warn(secret, problem);
    }
    // Not before: until the SyncSecret has the mark, only the finalizer shows that it is to be deleted with the Secret.
    const isTried = entry !== undefined && !isUnderWay(entry.outcome);
    if (isTried && secret.metadata.finalizers !== undefined) await this.#removeFinalizer(rule, secret, signal);
  }
}

function problemOf(outcome: Outcome | undefined): Cause | undefined {
  return outcome?.state === 'conflict' || outcome?.state === 'error' ? outcome : undefined;
}

function nameOf(rule: RuleKey): string {
  return rule.slice(rule.lastIndexOf('/') + 1);
}
