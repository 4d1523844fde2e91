/** Turns the SyncSecrets of the management cluster into claims on Secrets, and writes their status. */
import { namespaceOf, resourceKey, type ResourceKey, parseResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import { isMarkedElsewhere } from '../../copy/plan/marks.ts';
import type { Preparation } from '../../copy/rule-reconciler.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { finalizerStep } from '../common/finalizer.ts';
import { SYNC_SECRET_API_VERSION, SYNC_SECRET_FINALIZER, SYNC_SECRET_KIND } from './api.ts';
import { OWNER_ANNOTATION } from './marks.ts';
import type { LeftDeletions } from './one-cluster.ts';
import type { SyncSecretRule } from './rule.ts';
import { SecretShape } from './shapes.ts';
import { managementState } from './status.ts';
import { type Progress, SyncSecretReconciler, type SyncSecretReconcilerOptions } from './sync-secret-reconciler.ts';

export const MANAGER_CONTROLLER = 'syncsecret-manager';

/** A token of this type is minted by the control plane for any ServiceAccount. Its data arrive in a Secret of another type. */
const TOKEN_TYPE = 'kubernetes.io/service-account-token';

export interface ManagerReconcilerOptions extends SyncSecretReconcilerOptions {
  /** `undefined`: it leaves no deletion to a CCM. */
  readonly leftDeletions?: LeftDeletions;
  readonly isServed: (namespace: string) => boolean;
  /** Whether a Secret exists, as far as is known. */
  readonly exists: (secret: ResourceKey) => boolean;
}

export class ManagerReconciler extends SyncSecretReconciler {
  readonly name = MANAGER_CONTROLLER;
  readonly #options: ManagerReconcilerOptions;

  constructor(options: ManagerReconcilerOptions) {
    super(options, { target: 'its Secret', marksOf: () => [], unreachable: () => undefined });
    this.#options = options;
  }

  override async listed(rule: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    await super.listed(rule, signal);
    const { syncSecrets, leftDeletions } = this.#options;
    const remainingMs = leftDeletions?.remainingMs(rule, syncSecrets.store.get(rule)) ?? 0;
    return remainingMs === 0 ? undefined : { requeueAfterMs: remainingMs };
  }

  preparationOf(rule: RuleKey): Preparation | undefined {
    const object = this.#options.syncSecrets.store.get(rule);
    if (object === undefined || !this.isServed(rule, object)) return undefined;
    return finalizerStep(object.metadata, SYNC_SECRET_FINALIZER) === 'add' ? 'first' : undefined;
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    await this.#options.syncSecrets.addFinalizer(rule, undefined, signal);
  }

  ownerOf({ annotations, owners }: Observed, target: ResourceKey): RuleKey | undefined {
    const place = parseResourceKey(target);
    if (place.cluster !== this.#options.cluster || place.kind !== SECRET.kind) return undefined;
    if (isMarkedElsewhere(annotations, place)) return undefined;
    const name = annotations[OWNER_ANNOTATION] ?? ownerByUid(owners, place.name);
    return name === undefined ? undefined : this.#options.syncSecrets.store.key(place.namespace, name);
  }

  /** With another flag, the Secrets of the other namespaces stay. */
  orphanPolicy(rule: RuleKey): 'delete' | 'keep' {
    return this.#options.isServed(namespaceOf(rule)) ? 'delete' : 'keep';
  }

  protected isServed(rule: RuleKey, object: SyncSecretRule): boolean {
    return (this.#options.leftDeletions?.remainingMs(rule, object) ?? 0) === 0;
  }

  protected isActive({ metadata }: SyncSecretRule): boolean {
    return metadata.deletionTimestamp === undefined;
  }

  protected targetOf({ metadata: { namespace = '', uid } }: SyncSecretRule): ResourceKey {
    return resourceKey(this.#options.cluster, SECRET.kind, namespace, uid);
  }

  protected shapeOf(_rule: RuleKey, object: SyncSecretRule): SecretShape {
    const { name, uid } = object.metadata;
    const owner = { apiVersion: SYNC_SECRET_API_VERSION, kind: SYNC_SECRET_KIND, name, uid };
    return new SecretShape(this.#options.travel, owner, object.immutable, originalTypeOf(object));
  }

  protected async report(
    rule: RuleKey,
    object: SyncSecretRule,
    { entry, outcome, failure }: Progress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { syncSecrets, metrics, exists } = this.#options;
    const state = managementState({
      outcome,
      failure,
      exists: entry !== undefined && exists(entry.claim.target),
      originalType: originalTypeOf(object),
    });
    if (state === undefined) return undefined;
    metrics?.finished(rule, state.status === 'True' ? 'success' : 'error');
    return await syncSecrets.writeStatus(rule, state, signal);
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
