/** The part of a SyncSecret that Keyferry keeps: metadata, type and status, but no values. */
import type { KubeObject, ObjectMeta } from '../../../kube/api.ts';
import { clipped } from '../../../runtime/text/texts.ts';
import { keptFinalizers } from '../../../copy/engine/life/rule-store.ts';
import type { KeyLists } from '../../../copy/model/key-lists.ts';
import { OWN_FINALIZERS, type SyncSecret, SYNCED_CONDITION, type SyncSecretStatus } from '../api.ts';
import { type Origin, originOf } from './marks.ts';

export interface SyncSecretRule {
  readonly metadata: Pick<
    ObjectMeta,
    'name' | 'namespace' | 'uid' | 'resourceVersion' | 'generation' | 'creationTimestamp' | 'deletionTimestamp'
  > & { readonly finalizers: readonly string[] };
  /** The type in the object; '' if it has none. */
  readonly type: string;
  readonly immutable: boolean;
  readonly origin: Origin;
  /** The status. Of its conditions, only `Synced` is kept. */
  readonly status: SyncSecretStatus;
}

/** Maximum length of a kept text of the status, characters. A condition may have 32,768. */
export const MAX_TEXT = 1024;

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
      finalizers: lists.share(keptFinalizers(metadata.finalizers, OWN_FINALIZERS)),
    },
    type: lists.text(clipped(type, MAX_TEXT)),
    immutable: immutable === true,
    origin: originOf(metadata),
    status: statusOf(object, lists),
  };
}

/** The part of a status that Keyferry reads. */
export function statusOf(object: KubeObject, lists: KeyLists): SyncSecretStatus {
  const { observedGeneration, phase, conditions } = (object as SyncSecret).status ?? {};
  const condition = conditions?.find(({ type }) => type === SYNCED_CONDITION);
  const text = (value: string): string => lists.text(clipped(value, MAX_TEXT));
  // SyncSecrets that were synced in the same second have equal statuses, so they share one object.
  return lists.map({
    ...(observedGeneration !== undefined && { observedGeneration }),
    ...(phase !== undefined && { phase: text(phase) }),
    ...(condition && {
      conditions: [
        {
          ...condition,
          lastTransitionTime: lists.text(condition.lastTransitionTime),
          reason: text(condition.reason),
          message: text(condition.message),
        },
      ],
    }),
  });
}

/** Changes when the claims of a SyncSecret may change, and does not change with its status. */
export function ruleVersion({ metadata, origin }: SyncSecretRule): string {
  const { uid, generation = 0, finalizers, deletionTimestamp } = metadata;
  const deleting = deletionTimestamp === undefined ? '' : ' deleting';
  return `${uid} ${generation} ${finalizers.join(',')}${deleting} ${origin}`;
}
