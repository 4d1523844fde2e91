/** Turns labelled Secrets into claims on SyncSecrets of the same name. */
import { parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import { isMarkedElsewhere } from '../../copy/plan/marks.ts';
import type { Evaluation, RuleReconciler } from '../../copy/rule-reconciler.ts';
import type { KubeObject, ObjectMeta } from '../../kube/api.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { Steps } from '../../runtime/slices.ts';
import { liveRules } from '../common/live-rules.ts';
import type { RuleClient } from '../common/rule-client.ts';
import { ruleName, type RuleStore } from '../common/rule-store.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL, ORIGIN_LABELS, ORIGINAL_FINALIZER } from './api.ts';
import { SYNC_SECRET } from './kind.ts';
import { COPY_LABEL, originOf, SECRET_ANNOTATION } from './marks.ts';
import { ManifestShape } from './shapes.ts';

export const SYNCHRONIZER_CONTROLLER = 'syncsecret-synchronizer';

/** The part of a labelled Secret that is kept. */
export interface OfferedSecret {
  readonly metadata: Pick<
    ObjectMeta,
    'name' | 'namespace' | 'uid' | 'resourceVersion' | 'creationTimestamp' | 'finalizers'
  >;
  readonly immutable: boolean;
}

export interface SynchronizerReconcilerOptions {
  /** Name of the tenant cluster. */
  readonly cluster: string;
  readonly secrets: RuleStore<OfferedSecret>;
  /** Of the Secrets' metadata. */
  readonly client: RuleClient;
  /** Settles when the Secrets and the SyncSecrets have been listed. */
  readonly synced: () => Promise<unknown>;
  /** The SyncSecret in the place of a Secret's belongs to somebody. */
  readonly onConflict: (secret: OfferedSecret, message: string) => void;
}

/** The part of a Secret that is kept; `undefined`: it is not offered, or is the Secret of a SyncSecret itself. */
export function offeredSecret(object: KubeObject & { readonly immutable?: boolean }): OfferedSecret | undefined {
  const {
    name,
    namespace,
    uid,
    resourceVersion,
    creationTimestamp,
    deletionTimestamp,
    finalizers,
    labels = {},
  } = object.metadata;
  if (labels[MANAGED_BY_LABEL] !== MANAGED_BY_KUBELB || deletionTimestamp !== undefined) return undefined;
  // KubeLB copies all labels, also to the Secrets that its manager makes.
  if (labels[COPY_LABEL] !== undefined || originOf(object.metadata) === 'another') return undefined;
  return {
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      uid,
      resourceVersion,
      creationTimestamp,
      ...(finalizers?.includes(ORIGINAL_FINALIZER) === true ? { finalizers } : {}),
    },
    immutable: object.immutable === true,
  };
}

/** Changes whenever the claims of a Secret may change. */
export function offeredVersion({ metadata: { uid, finalizers }, immutable }: OfferedSecret): string {
  return `${uid} ${immutable} ${finalizers?.join(',') ?? ''}`;
}

export class SynchronizerReconciler implements RuleReconciler {
  readonly name = SYNCHRONIZER_CONTROLLER;
  readonly getLive: RuleReconciler['getLive'];
  readonly #options: SynchronizerReconcilerOptions;
  /** The last conflict of each rule. */
  readonly #conflicts = new Map<RuleKey, string>();

  constructor(options: SynchronizerReconcilerOptions) {
    this.#options = options;
    const { secrets, client } = options;
    this.getLive = liveRules(
      async (rule, signal) => {
        const object = await client.get(ruleName(rule), signal);
        const offered = offeredSecret(object);
        // Metadata do not show `immutable`.
        return offered && offeredVersion({ ...offered, immutable: secrets.get(rule)?.immutable === true });
      },
      () => false,
    );
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const { secrets, synced } = this.#options;
    await orAborted(synced(), signal, 'waiting for the list of Secrets');
    const secret = secrets.get(rule);
    if (secret !== undefined) await this.removeFinalizer(secret, signal);
  }

  /** Removes the finalizer that KubeLB puts on offered Secrets. @throws ApiError */
  async removeFinalizer(secret: KubeObject, signal: AbortSignal): Promise<void> {
    await this.#options.client.removeFinalizers(secret, [ORIGINAL_FINALIZER], {}, signal);
  }

  // eslint-disable-next-line require-yield -- nothing here takes long
  *evaluate(rule: RuleKey): Steps<Evaluation | undefined> {
    const { secrets, cluster } = this.#options;
    const secret = secrets.get(rule);
    if (secret === undefined) return undefined;
    const { namespace = '', name, uid, creationTimestamp } = secret.metadata;
    const owner = { key: rule, title: `Secret ${namespace}/${name}`, rank: `${creationTimestamp} ${uid}` };
    const target = resourceKey(cluster, SYNC_SECRET.kind, namespace, name);
    const source = resourceKey(cluster, SECRET.kind, namespace, name);
    const shape = new ManifestShape(namespace, name, secret.immutable);
    const claims = [{ owner, target, mode: 'own', source, isRuleSource: true, shape } as const];
    return { owner, version: offeredVersion(secret), claims, sources: [] };
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

  /** The status of a SyncSecret is that of its CCM, and Secrets have none: a conflict is an event. */
  updateStatus(rule: RuleKey, entries: Iterable<Entry>): Promise<undefined> {
    const { secrets, onConflict } = this.#options;
    const secret = secrets.get(rule);
    const [entry] = entries;
    if (secret === undefined || entry?.outcome.state !== 'conflict') {
      this.#conflicts.delete(rule);
    } else if (this.#conflicts.get(rule) !== entry.outcome.message) {
      this.#conflicts.set(rule, entry.outcome.message);
      onConflict(secret, entry.outcome.message);
    }
    return Promise.resolve(undefined);
  }
}
