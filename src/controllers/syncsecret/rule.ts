/** The part of a SyncSecret that Keyferry keeps: metadata, type and status, and no values. */
import type { KubeObject, ObjectMeta } from '../../kube/api.ts';
import type { KeyLists } from '../../copy/model/key-lists.ts';
import { type SyncSecret, SYNCED_CONDITION, type SyncSecretCondition } from './api.ts';
import { type Origin, originOf, PROPAGATED_ANNOTATION } from './marks.ts';

export interface SyncSecretRule {
  readonly metadata: Pick<
    ObjectMeta,
    'name' | 'namespace' | 'uid' | 'resourceVersion' | 'generation' | 'creationTimestamp' | 'deletionTimestamp'
  > & { readonly finalizers: readonly string[] };
  /** As in the object; '' if it has none. */
  readonly type: string;
  readonly immutable: boolean;
  readonly origin: Origin;
  /** The value of `PROPAGATED_ANNOTATION`. */
  readonly propagated: string | undefined;
  readonly status: StatusView;
}

/** The part of a status that is read. */
export interface StatusView {
  readonly observedGeneration: number | undefined;
  readonly phase: string | undefined;
  readonly condition: SyncSecretCondition | undefined;
}

/** Longest text of a status that is kept, characters: a condition may have 32,768. */
const MAX_TEXT = 1024;

export function ruleOf(object: KubeObject, lists: KeyLists): SyncSecretRule {
  const { type = '', immutable } = object as SyncSecret;
  const { metadata } = object;
  const { name, namespace, uid, resourceVersion, generation, creationTimestamp, deletionTimestamp } = metadata;
  return {
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace: lists.text(namespace) }),
      uid,
      resourceVersion,
      ...(generation === undefined ? {} : { generation }),
      creationTimestamp: lists.text(creationTimestamp),
      ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
      finalizers: lists.share(metadata.finalizers ?? []),
    },
    type: lists.text(clipped(type)),
    immutable: immutable === true,
    origin: originOf(metadata),
    propagated: metadata.annotations?.[PROPAGATED_ANNOTATION],
    status: statusView(object, lists),
  };
}

export function statusView(object: KubeObject, lists: KeyLists): StatusView {
  const { observedGeneration, phase, conditions } = (object as SyncSecret).status ?? {};
  const condition = conditions?.find(({ type }) => type === SYNCED_CONDITION);
  return {
    observedGeneration,
    phase: phase === undefined ? undefined : lists.text(clipped(phase)),
    condition: condition && {
      type: SYNCED_CONDITION,
      status: condition.status,
      ...(condition.observedGeneration === undefined ? {} : { observedGeneration: condition.observedGeneration }),
      lastTransitionTime: lists.text(condition.lastTransitionTime),
      reason: lists.text(clipped(condition.reason)),
      message: lists.text(clipped(condition.message)),
    },
  };
}

/** Changes whenever the claims of a SyncSecret may change, and not with its status. */
export function ruleVersion({ metadata, origin, propagated }: SyncSecretRule): string {
  const { uid, generation = 0, finalizers, deletionTimestamp } = metadata;
  const deleting = deletionTimestamp === undefined ? '' : ' deleting';
  return `${uid} ${generation} ${finalizers.join(',')}${deleting} ${origin} ${propagated ?? ''}`;
}

export function clipped(text: string, max = MAX_TEXT): string {
  return text.length <= max ? text : `${text.slice(0, max - 1)}…`;
}
