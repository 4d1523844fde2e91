/**
 * What is kept of a watched object: enough to plan with, nothing that could be secret.
 *
 * `last-applied-configuration` (it holds the values of a Secret that was made by `kubectl apply`) and `managedFields` are
 * dropped on arrival. Of the latter one thing is kept, because it is how tampering is seen without reading values: the
 * data keys that we were the last to write, and whether anybody else wrote any.
 */
import type { ManagedFieldsEntry, ObjectMeta } from '../kube/api.ts';
import type { KeyLists } from './key-lists.ts';

/** Our name in `metadata.managedFields`. */
export const FIELD_MANAGER = 'keyferry';
export const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

export interface Observed {
  readonly uid: string;
  readonly resourceVersion: string;
  /** RFC 3339, as the server gave it. */
  readonly created: string;
  readonly deleting: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** The data keys that only we have written, joined; `undefined` if anybody else had a hand in the data, type or immutability. */
  readonly ownKeys: string | undefined;
  /** The labels and annotations that we were the last to write: what of them is no longer wished for goes. */
  readonly ownLabels: readonly string[];
  readonly ownAnnotations: readonly string[];
}

const NONE: Readonly<Record<string, string>> = Object.freeze({});
const NO_KEYS: readonly string[] = Object.freeze([]);

/** Condenses an object's metadata. `lists`: where many objects are kept, what they have in common is kept once. */
export function observe(meta: ObjectMeta, lists?: KeyLists): Observed {
  const { ownKeys, ownLabels, ownAnnotations } = ownFields(meta.managedFields);
  return {
    uid: meta.uid,
    resourceVersion: meta.resourceVersion,
    created: meta.creationTimestamp,
    deleting: meta.deletionTimestamp !== undefined,
    labels: meta.labels ?? NONE,
    annotations: withoutLastApplied(meta.annotations),
    ownKeys,
    ownLabels: lists?.share(ownLabels) ?? ownLabels,
    ownAnnotations: lists?.share(ownAnnotations) ?? ownAnnotations,
  };
}

function withoutLastApplied(
  annotations: Readonly<Record<string, string>> | undefined,
): Readonly<Record<string, string>> {
  if (annotations === undefined) return NONE;
  if (!(LAST_APPLIED in annotations)) return annotations;
  const { [LAST_APPLIED]: _, ...rest } = annotations;
  return rest;
}

/** Joins data keys as `Observed.ownKeys` has them. No key of a Secret or ConfigMap has a comma. */
export function joinKeys(keys: Iterable<string>): string {
  return [...keys].sort().join(',');
}

/** Fields of an object in which others may have a hand: not its content, whatever its kind. */
const NOT_CONTENT: ReadonlySet<string> = new Set(['f:metadata', 'f:status', 'f:apiVersion', 'f:kind']);

type FieldSet = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

function ownFields(
  entries: readonly ManagedFieldsEntry[] | undefined,
): Pick<Observed, 'ownKeys' | 'ownLabels' | 'ownAnnotations'> {
  const keys: string[] = [];
  let labels = NO_KEYS;
  let annotations = NO_KEYS;
  let own = false;
  let foreign = false;
  for (const { manager, fieldsV1 } of entries ?? []) {
    const fields = fieldsV1 as FieldSet | undefined;
    if (fields === undefined) continue;
    if (manager !== FIELD_MANAGER) {
      foreign ||= Object.keys(fields).some((field) => !NOT_CONTENT.has(field));
      continue;
    }
    own = true;
    for (const field in fields) if (!NOT_CONTENT.has(field)) keys.push(...members(fields[field]));
    const metadata = fields['f:metadata'] as FieldSet | undefined;
    labels = members(metadata?.['f:labels']);
    annotations = members(metadata?.['f:annotations']);
  }
  return { ownKeys: own && !foreign ? joinKeys(keys) : undefined, ownLabels: labels, ownAnnotations: annotations };
}

/** Names of the members of a field that is a map: `{"f:a": {}, ".": {}}` → `a`. */
function members(field: Readonly<Record<string, unknown>> | undefined): readonly string[] {
  if (field === undefined) return NO_KEYS;
  return Object.keys(field)
    .filter((key) => key.startsWith('f:'))
    .map((key) => key.slice(2));
}
