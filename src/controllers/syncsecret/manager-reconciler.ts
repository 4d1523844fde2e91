/** Turns the SyncSecrets of the management cluster into claims on Secrets, and writes their status. */
import { resourceKey, type ResourceKey, parseResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import { isMarkedElsewhere } from '../../copy/plan/marks.ts';
import type { EngineView, Evaluation, RuleProgress, RuleReconciler } from '../../copy/rule-reconciler.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { Steps } from '../../runtime/slices.ts';
import { liveRules } from '../common/live-rules.ts';
import { SYNC_SECRET_API_VERSION, SYNC_SECRET_FINALIZER, SYNC_SECRET_KIND } from './api.ts';
import { Deletions } from './deletion.ts';
import { SYNC_SECRET } from './kind.ts';
import { OWNER_ANNOTATION } from './marks.ts';
import type { SyncSecretMetrics } from './metrics.ts';
import type { CcmWait } from './one-cluster.ts';
import { Pending } from './pending.ts';
import { ruleVersion, type SyncSecretRule } from './rule.ts';
import { SecretShape } from './shapes.ts';
import { managementState } from './status.ts';
import type { SyncSecrets } from './sync-secrets.ts';

export const MANAGER_CONTROLLER = 'syncsecret-manager';

/** A token of this type is minted by the control plane for any ServiceAccount. Its data arrive in a Secret of another type. */
const TOKEN_TYPE = 'kubernetes.io/service-account-token';

export interface ManagerReconcilerOptions {
  /** Name of the management cluster. */
  readonly cluster: string;
  readonly syncSecrets: SyncSecrets;
  /** `undefined`: there is no CCM in this cluster. */
  readonly ccmWait?: CcmWait;
  readonly metrics: SyncSecretMetrics | undefined;
  /** Whether a Secret exists, as far as is known. */
  readonly exists: (secret: ResourceKey) => boolean;
  /** Settles when the SyncSecrets and their Secrets have been listed. */
  readonly synced: () => Promise<unknown>;
  /** How long a deleted SyncSecret waits for the deletion of its Secret, ms. */
  readonly deletionTimeoutMs: number;
  /** Wall clock, ms. */
  readonly now: () => number;
}

export class ManagerReconciler implements RuleReconciler {
  readonly name = MANAGER_CONTROLLER;
  readonly getLive: RuleReconciler['getLive'];
  readonly #options: ManagerReconcilerOptions;
  readonly #pending = new Pending();
  readonly #deletions: Deletions;

  constructor(options: ManagerReconcilerOptions) {
    this.#options = options;
    const { syncSecrets, deletionTimeoutMs, now } = options;
    this.#deletions = new Deletions({
      syncSecrets,
      target: 'its Secret',
      marksOf: () => [],
      unreachable: () => undefined,
      pending: this.#pending,
      timeoutMs: deletionTimeoutMs,
      now,
    });
    this.getLive = liveRules(
      async (rule, signal) => await syncSecrets.readVersion(rule, signal),
      () => false,
    );
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const { syncSecrets, synced, ccmWait } = this.#options;
    // The Secrets of a SyncSecret are only known after the list of all of them.
    await orAborted(synced(), signal, 'waiting for the list of Secrets');
    const object = syncSecrets.store.get(rule);
    const remainingMs = ccmWait?.remainingMs(rule, object) ?? 0;
    if (remainingMs > 0) return remainingMs === Infinity ? undefined : { requeueAfterMs: remainingMs };
    if (object?.metadata.finalizers.includes(SYNC_SECRET_FINALIZER) === false) {
      await syncSecrets.addFinalizer(rule, undefined, signal);
    }
    return undefined;
  }

  // eslint-disable-next-line require-yield -- nothing here takes long
  *evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined> {
    const { syncSecrets, ccmWait } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined || ccmWait?.has(rule) === true) return undefined;
    const { namespace = '', name, uid, generation, creationTimestamp, deletionTimestamp } = object.metadata;
    const title = `${SYNC_SECRET_KIND} ${namespace}/${name}`;
    const owner = { key: rule, title, rank: `${creationTimestamp} ${uid}` };
    const target = this.#secretOf(object);
    const reference = { apiVersion: SYNC_SECRET_API_VERSION, kind: SYNC_SECRET_KIND, name, uid };
    const shape = new SecretShape(reference, object.immutable, originalTypeOf(object));
    const common = { owner, version: ruleVersion(object), sources: [] };
    if (deletionTimestamp !== undefined) {
      const targets = new Set([target, ...view.ownedBy(rule)]);
      const claims = Array.from(targets, (one) => ({
        owner,
        target: one,
        mode: 'release' as const,
        source: undefined,
        shape,
      }));
      return { ...common, claims };
    }
    const source = resourceKey(this.#options.cluster, SYNC_SECRET.kind, namespace, name);
    const own = {
      owner,
      target,
      mode: 'own',
      source,
      isRuleSource: true,
      sourceGeneration: generation,
      shape,
    } as const;
    return { ...common, claims: [own] };
  }

  ownerOf({ annotations, owners }: Observed, target: ResourceKey): RuleKey | undefined {
    const place = parseResourceKey(target);
    if (place.cluster !== this.#options.cluster || place.kind !== SECRET.kind) return undefined;
    if (isMarkedElsewhere(annotations, place)) return undefined;
    const name = annotations[OWNER_ANNOTATION] ?? ownerByUid(owners, place.name);
    return name === undefined ? undefined : this.#options.syncSecrets.store.key(place.namespace, name);
  }

  orphanPolicy(): 'delete' {
    return 'delete';
  }

  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    progress: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, metrics } = this.#options;
    const object = syncSecrets.store.get(rule);
    if (object === undefined) {
      syncSecrets.forget(rule);
      metrics?.forget(rule);
      this.#pending.forget(rule);
      this.#deletions.forget(rule);
      return undefined;
    }
    const isOutdated = progress.evaluated !== ruleVersion(object);
    if (object.metadata.deletionTimestamp !== undefined) {
      return isOutdated ? undefined : await this.#deletions.update(rule, object, entries, signal);
    }
    this.#deletions.forget(rule);
    if (isOutdated && progress.failure === undefined) return undefined;
    const [entry] = entries;
    const state = managementState({
      outcome: isOutdated ? undefined : entry?.outcome,
      failure: progress.failure,
      exists: entry !== undefined && this.#options.exists(entry.claim.target),
      originalType: originalTypeOf(object),
    });
    if (state === undefined) return undefined;
    metrics?.finished(rule, state.status === 'True' ? 'success' : 'error');
    await syncSecrets.writeStatus(rule, state, signal);
    return undefined;
  }

  #secretOf({ metadata: { namespace = '', uid } }: SyncSecretRule): ResourceKey {
    return resourceKey(this.#options.cluster, SECRET.kind, namespace, uid);
  }
}

/** The type of a SyncSecret whose Secret gets another one. */
export function originalTypeOf({ type }: SyncSecretRule): string | undefined {
  return type === TOKEN_TYPE ? type : undefined;
}

/** The SyncSecret in an owner reference with this uid: KubeLB's mark of a Secret, whose name is the uid. */
function ownerByUid(owners: string | undefined, uid: string): string | undefined {
  for (const line of owners?.split('\n') ?? []) {
    const [apiVersion, kind, name, ownerUid] = line.split(' ');
    if (apiVersion === SYNC_SECRET_API_VERSION && kind === SYNC_SECRET_KIND && ownerUid === uid) return name;
  }
  return undefined;
}
