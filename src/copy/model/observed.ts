/**
 * What is kept of a watched object: enough to plan with, nothing that could be secret.
 *
 * `last-applied-configuration` (it holds the values of a Secret that was made by `kubectl apply`) and `managedFields` are
 * dropped on arrival. Of the latter one thing is kept, because it is how tampering is seen without reading values: the
 * data keys that we were the last to write, and whether anybody else wrote any.
 *
 * An object may have 256 KiB of annotations and more of labels, and its user may make thousands of them. Of each, what no system reads is
 * kept up to 16 KiB, and a single value up to 32 KiB: longer ones are replaced by what their length and digest are.
 */
import { createHash } from 'node:crypto';
import type { ManagedFieldsEntry, ObjectMeta } from '../../kube/api.ts';
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
  /** It has more labels or annotations than are kept of one object. */
  readonly trimmed?: true;
  /** The API server hardly takes any more annotations on it. */
  readonly full?: true;
}

export interface ObserveOptions {
  /** Where many objects are kept, what they have in common is kept once. */
  readonly lists?: KeyLists;
  /** Default: all are read. */
  readonly isRead?: IsRead;
}

/** Whether a controller reads an annotation: then it is always kept. `undefined`: it is never kept, because no decision depends on it. */
export type IsRead = (annotation: string) => boolean | undefined;

const NONE: Readonly<Record<string, string>> = Object.freeze({});
const NO_KEYS: readonly string[] = Object.freeze([]);

/** What is kept of labels that no system reads, and of such annotations, in characters: far more than any object has, and 16 MB of a thousand objects. */
export const MAX_KEPT = 16 * 1024;
/** The longest value that is kept: two thousand names of namespaces. */
export const MAX_VALUE = 32 * 1024;
/** What the API server takes of the annotations of one object, in bytes of names and values. */
const MOST_ANNOTATIONS = 256 * 1024;
/** With less room than this an object counts as full, bytes: a few of our own annotations have room in it. */
const LEAST_ROOM = 1024;
/** Data keys that are longer together are remembered by their digest. */
const MAX_KEYS = 1024;

/** Condenses an object's metadata. */
export function observe(meta: ObjectMeta, { lists, isRead }: ObserveOptions = {}): Observed {
  const { ownKeys, ownLabels, ownAnnotations } = ownFields(meta.managedFields);
  const labels = meta.labels === undefined ? undefined : keptOf(meta.labels, isRead && (() => false), lists);
  const annotations = meta.annotations === undefined ? undefined : keptOf(meta.annotations, isRead, lists);
  return {
    uid: meta.uid,
    resourceVersion: meta.resourceVersion,
    created: lists?.text(meta.creationTimestamp) ?? meta.creationTimestamp,
    deleting: meta.deletionTimestamp !== undefined,
    labels: labels === undefined ? NONE : (lists?.map(labels.kept) ?? labels.kept),
    annotations: annotations?.kept ?? NONE,
    ownKeys: ownKeys === undefined ? undefined : (lists?.text(ownKeys) ?? ownKeys),
    ownLabels: lists?.share(ownLabels) ?? ownLabels,
    ownAnnotations: lists?.share(ownAnnotations) ?? ownAnnotations,
    ...(labels?.trimmed === true || annotations?.trimmed === true ? { trimmed: true } : {}),
    ...(meta.annotations !== undefined && isFull(meta.annotations) ? { full: true } : {}),
  };
}

type Texts = Readonly<Record<string, string>>;

function isFull(annotations: Texts): boolean {
  let length = 0;
  for (const key in annotations) length += key.length + (annotations[key]?.length ?? 0);
  // A character takes three bytes at most (half a surrogate pair two), so that bytes need not be counted of nearly all objects.
  if (length * 3 <= MOST_ANNOTATIONS - LEAST_ROOM) return false;
  let bytes = 0;
  for (const key in annotations) bytes += Buffer.byteLength(key) + Buffer.byteLength(annotations[key] ?? '');
  return bytes > MOST_ANNOTATIONS - LEAST_ROOM;
}

/** Something is kept of every map that is not empty: whether there is one at all decides how it is changed. */
function keptOf(
  map: Texts,
  isRead: IsRead | undefined,
  lists: KeyLists | undefined,
): { readonly kept: Texts; readonly trimmed: boolean } {
  const kept: Record<string, string> = {};
  let room = MAX_KEPT;
  let trimmed = false;
  let some = false;
  let first: string | undefined;
  for (const key in map) {
    const value = map[key];
    if (value === undefined || key === LAST_APPLIED) continue;
    const read = isRead === undefined || isRead(key);
    if (read !== true) {
      first ??= key;
      if (read === undefined) continue;
      if (room < key.length + value.length) {
        trimmed = true;
        continue;
      }
      room -= key.length + value.length;
    }
    kept[key] = value.length > MAX_VALUE ? tooLong(value) : (lists?.text(value) ?? value);
    some = true;
  }
  if (!some && first !== undefined) kept[first] = tooLong(map[first] ?? '');
  return { kept: some || first !== undefined ? kept : NONE, trimmed };
}

/** No value of an object has it: the API server takes no such character in an annotation that is written as text, and nobody needs one. */
const TOO_LONG = '\0too long: ';

/** In place of a value: another value has another text. */
function tooLong(value: string): string {
  const digest = createHash('sha256').update(value).digest('base64url');
  return `${TOO_LONG}${value.length} characters, ${digest}`;
}

/** Why a value is not known, if it was too long to be kept. */
export function lengthProblem(value: string): string | undefined {
  if (!value.startsWith(TOO_LONG)) return undefined;
  return `it has ${Number.parseInt(value.slice(TOO_LONG.length), 10)} characters; the maximum is ${MAX_VALUE}`;
}

/** Joins data keys as `Observed.ownKeys` has them; very many are told by their digest. No key of a Secret or ConfigMap has a comma. */
export function joinKeys(keys: Iterable<string>): string {
  const joined = [...keys].sort().join(',');
  return joined.length <= MAX_KEYS ? joined : createHash('sha256').update(joined).digest('base64');
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
