/**
 * The stored part of a watched object: enough to plan with, and nothing that could be secret.
 *
 * `last-applied-configuration` (it has the values of a Secret that `kubectl apply` created) and `managedFields` are
 * dropped. Of `managedFields`, the data keys that Keyferry wrote last are kept, if no other client wrote data: this
 * shows changes by other clients without reading values.
 *
 * An object may have 256 KiB of annotations and more of labels, and a user may create thousands of such objects. So
 * labels and annotations that no controller reads are kept up to 16 KiB, and single values up to 32 KiB: longer values
 * are replaced by their length and digest.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { ManagedFieldsEntry, ObjectMeta, OwnerReference } from '../../kube/api.ts';
import { flatText } from '../../runtime/text/texts.ts';
import type { KeyLists } from './key-lists.ts';
import type { ObjectName } from './keys.ts';

/** Keyferry's name in `metadata.managedFields`. */
export const FIELD_MANAGER = 'keyferry';
/** On every copy, besides the mark of its owner: the place of the copy itself, as `<namespace>/<name>`. */
export const PLACE_ANNOTATION = 'keyferry.dev/target';
export const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

export interface Observed {
  readonly uid: string;
  readonly resourceVersion: string;
  /** Only of a custom resource. @see contentVersion */
  readonly generation?: number;
  /** RFC 3339, as the server gave it. */
  readonly created: string;
  readonly deleting: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** The data keys that Keyferry wrote, joined; `undefined` if another client wrote data, type or `immutable`. */
  readonly ownKeys: string | undefined;
  /** The labels and annotations that Keyferry wrote last. They are removed when they are no longer desired. */
  readonly ownLabels: readonly string[];
  readonly ownAnnotations: readonly string[];
  /** The owner references of the object, if it has any. @see ownersText */
  readonly owners?: string;
  /** Keyferry has made the object immutable. */
  readonly ownImmutable?: true;
  /** Some labels or annotations of the object were not kept. */
  readonly trimmed?: true;
  /** The annotations of the object almost reach the limit of the API server. */
  readonly full?: true;
  /** Set for an object that a watch brings whole. */
  readonly content?: KeptContent;
}

/** The kept content of an object that a watch brings whole. See `StoredContent` in `store.ts`. */
export interface KeptContent {
  /** `revisionOf` the object that had this content. At a later revision the content is not known. */
  readonly revision: number | string;
  /** The kept part of the object's status, which may be newer than the content. */
  readonly status?: object | undefined;
}

export interface ObserveOptions {
  /** @see Kind.isCustom */
  readonly isCustom?: boolean | undefined;
  /** Shares equal values between objects. */
  readonly lists?: KeyLists;
  /** Default: all annotations are read. */
  readonly isRead?: IsRead | undefined;
}

/** Whether a controller reads an annotation: if so, it is always kept. `undefined`: it is never kept. */
export type IsRead = (annotation: string) => boolean | undefined;

const NONE: Readonly<Record<string, string>> = Object.freeze({});
const NO_KEYS: readonly string[] = Object.freeze([]);

/** Most characters of labels that no controller reads, and of such annotations: more than usual objects have. */
export const MAX_KEPT = 16 * 1024;
/** Longest value that is kept, characters: room for two thousand names of namespaces. */
export const MAX_VALUE = 32 * 1024;
/** The API server's limit for all annotations of an object, bytes of names and values. */
const MOST_ANNOTATIONS = 256 * 1024;
/** An object with less room than this is full, bytes: enough for a few annotations of Keyferry. */
const LEAST_ROOM = 1024;
/** Longest text of all owner references of an object; a longer one is replaced by its digest. */
const MAX_OWNERS = 4096;
/** Longest text of all data keys of an object; a longer one is replaced by its digest. */
const MAX_KEYS = 1024;

type NameInNamespace = Pick<ObjectName, 'namespace' | 'name'>;

/** The value of `PLACE_ANNOTATION`. */
export function placeText({ namespace, name }: NameInNamespace): string {
  return `${namespace}/${name}`;
}

/** Whether the marks on an object were written for another one. @see Claims.ownerOf */
export function isMarkedElsewhere(annotations: Texts, place: NameInNamespace): boolean {
  const marked = annotations[PLACE_ANNOTATION];
  return marked !== undefined && marked !== placeText(place);
}

/** A namespace of an index: the strings and values that its objects share. */
export interface KeptIn {
  readonly name: string;
  readonly lists: KeyLists;
}

/**
 * An object of an index, with the bits of the feeds that confirm it. There are tens of thousands, so all copies of a
 * source share one object for their labels and one for their annotations. Only `PLACE_ANNOTATION` differs on each copy:
 * if it names the copy itself, it is not stored, but computed for each reader.
 */
export class Slot implements Observed {
  feeds = 0;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly created: string;
  readonly deleting: boolean;
  readonly labels: Texts;
  readonly ownKeys: string | undefined;
  readonly ownLabels: readonly string[];
  readonly ownAnnotations: readonly string[];
  readonly #annotations: Texts;
  readonly #keptIn: KeptIn | undefined;
  readonly #name: string;
  // Rare fields: with `declare`, an object without them needs no memory for them.
  declare readonly generation?: number;
  declare readonly owners?: string;
  declare readonly ownImmutable?: true;
  declare readonly trimmed?: true;
  declare readonly full?: true;
  declare content?: KeptContent;

  /** @param keptIn `undefined`: no index keeps the object @param name the same string as the key in the index */
  constructor(
    meta: ObjectMeta,
    { lists, isRead, isCustom = false }: ObserveOptions,
    keptIn?: KeptIn,
    name = '',
    content?: KeptContent,
  ) {
    const { annotations: all = NONE, ownerReferences = [] } = meta;
    const { ownKeys, ownLabels, ownAnnotations, ownImmutable } = ownFields(meta.managedFields);
    const isPlaced = keptIn !== undefined && all[PLACE_ANNOTATION] === placeText({ namespace: keptIn.name, name });
    const labels = keptOf(meta.labels ?? NONE, isRead && (() => false), lists);
    const annotations = keptOf(all, isRead, lists, isPlaced ? PLACE_ANNOTATION : undefined);
    this.uid = meta.uid;
    this.resourceVersion = meta.resourceVersion;
    this.created = lists?.text(meta.creationTimestamp) ?? meta.creationTimestamp;
    this.deleting = meta.deletionTimestamp !== undefined;
    this.labels = labels.kept;
    this.ownKeys = ownKeys === undefined ? undefined : (lists?.text(ownKeys) ?? ownKeys);
    this.ownLabels = lists?.share(ownLabels) ?? ownLabels;
    this.ownAnnotations = lists?.share(ownAnnotations) ?? ownAnnotations;
    this.#annotations = annotations.kept;
    this.#keptIn = isPlaced ? keptIn : undefined;
    this.#name = name;
    if (isCustom) this.generation = meta.generation ?? 0;
    if (ownerReferences.length > 0) this.owners = ownersText(ownerReferences);
    if (ownImmutable === true) this.ownImmutable = true;
    if (labels.trimmed || annotations.trimmed) this.trimmed = true;
    if (isFull(all)) this.full = true;
    if (content !== undefined) this.content = content;
  }

  get annotations(): Texts {
    if (this.#keptIn === undefined) return this.#annotations;
    const { name: namespace, lists } = this.#keptIn;
    if (lists.lastRead?.slot !== this) {
      const annotations = { ...this.#annotations, [PLACE_ANNOTATION]: placeText({ namespace, name: this.#name }) };
      lists.lastRead = { slot: this, annotations };
    }
    return lists.lastRead.annotations;
  }
}

/** The stored part of an object's metadata. */
export function observe(meta: ObjectMeta, options: ObserveOptions = {}): Observed {
  return new Slot(meta, options);
}

/**
 * The version of an object's content. A write of the status changes the resourceVersion of a custom resource, but not
 * its generation. So for custom resources the version is uid and generation; for other kinds it is the resourceVersion.
 */
export function contentVersion({
  uid,
  generation,
  resourceVersion,
}: Pick<Observed, 'uid' | 'generation' | 'resourceVersion'>): string {
  return versionAt(uid, generation ?? resourceVersion);
}

/** The version of the content of an object with this uid. */
export function versionAt(uid: string, revision: number | string): string {
  return typeof revision === 'string' ? revision : flatText(uid, ':', revision);
}

/** Whether the stored metadata of two versions of an object are equal except for the resourceVersion. */
export function sameButVersion(a: Observed, b: Observed): boolean {
  return isDeepStrictEqual(withoutVersion(a), withoutVersion(b));
}

function withoutVersion(observed: Observed): object {
  return { ...observed, annotations: observed.annotations, resourceVersion: '', feeds: 0, content: undefined };
}

/** Whether the metadata show that an object is immutable. `undefined`: another client may have made it immutable. */
export function immutableBy({ ownImmutable, ownKeys }: Observed): boolean | undefined {
  if (ownImmutable === true) return true;
  return ownKeys === undefined ? undefined : false;
}

/** As `contentVersion`, for an object in a response of the server. */
export function versionOf(
  meta: Pick<ObjectMeta, 'uid' | 'resourceVersion' | 'generation'>,
  kind: Pick<ObserveOptions, 'isCustom'>,
): string {
  return versionAt(meta.uid, revisionOf(meta, kind));
}

/** The part of a content version that changes. To save memory it lacks the uid, which the object has anyway. */
export function revisionOf(
  { resourceVersion, generation = 0 }: Pick<ObjectMeta, 'resourceVersion' | 'generation'>,
  { isCustom = false }: Pick<ObserveOptions, 'isCustom'>,
): number | string {
  return isCustom ? generation : resourceVersion;
}

/** Owner references as text: equal references have equal texts. */
export function ownersText(references: readonly OwnerReference[]): string {
  const lines = references.map(({ apiVersion, kind, name, uid, controller, blockOwnerDeletion }) => {
    return [apiVersion, kind, name, uid, String(controller === true), String(blockOwnerDeletion === true)].join(' ');
  });
  const text = lines.join('\n');
  return text.length <= MAX_OWNERS ? text : tooLong(text);
}

type Texts = Readonly<Record<string, string>>;

function isFull(annotations: Texts): boolean {
  let length = 0;
  for (const key in annotations) length += key.length + (annotations[key]?.length ?? 0);
  // A character takes at most three bytes, so counting bytes is rarely needed.
  if (length * 3 <= MOST_ANNOTATIONS - LEAST_ROOM) return false;
  let bytes = 0;
  for (const key in annotations) bytes += Buffer.byteLength(key) + Buffer.byteLength(annotations[key] ?? '');
  return bytes > MOST_ANNOTATIONS - LEAST_ROOM;
}

/**
 * The part of labels or annotations that is kept: at least one key if the map is not empty, because the JSON patch for
 * an empty map differs (`changes` in `object-writer.ts`).
 * @param except a key that the caller keeps itself
 */
function keptOf(
  map: Texts,
  isRead: IsRead | undefined,
  lists: KeyLists | undefined,
  except?: string,
): { readonly kept: Texts; readonly trimmed: boolean } {
  const kept: Record<string, string> = {};
  let room = MAX_KEPT;
  let trimmed = false;
  let some = except !== undefined;
  let first: string | undefined;
  for (const key in map) {
    const value = map[key];
    if (value === undefined || key === LAST_APPLIED || key === except) continue;
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
  if (!some && first === undefined) return { kept: NONE, trimmed };
  return { kept: lists?.map(kept) ?? kept, trimmed };
}

/** Prefix of a replaced value. No usual value starts with this character. */
const TOO_LONG = '\0too long: ';

/** Replaces a long value. Different values have different replacements. */
function tooLong(value: string): string {
  const digest = createHash('sha256').update(value).digest('base64url');
  return `${TOO_LONG}${value.length} characters, ${digest}`;
}

/** The problem of a value that was too long to keep. */
export function lengthProblem(value: string): string | undefined {
  if (!value.startsWith(TOO_LONG)) return undefined;
  return `it has ${Number.parseInt(value.slice(TOO_LONG.length), 10)} characters; the maximum is ${MAX_VALUE}`;
}

/** A key that the API server accepts in Secrets and ConfigMaps. */
const USUAL_KEY = /^[-._a-zA-Z0-9]+$/;

/** Joins data keys for `Observed.ownKeys`; a long text becomes a digest. A key of a custom resource can be any text. */
export function joinKeys(keys: Iterable<string>): string {
  const sorted = [...keys].sort();
  const joined = sorted.every((key) => USUAL_KEY.test(key)) ? sorted.join(',') : JSON.stringify(sorted);
  return joined.length <= MAX_KEYS ? joined : createHash('sha256').update(joined).digest('base64');
}

/** Fields that other clients may write, because they are not content of any kind. */
const NOT_CONTENT: ReadonlySet<string> = new Set(['f:metadata', 'f:status', 'f:apiVersion', 'f:kind']);

type FieldSet = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

function ownFields(
  entries: readonly ManagedFieldsEntry[] | undefined,
): Pick<Observed, 'ownKeys' | 'ownLabels' | 'ownAnnotations' | 'ownImmutable'> {
  const keys: string[] = [];
  let labels = NO_KEYS;
  let annotations = NO_KEYS;
  let own = false;
  let foreign = false;
  let immutable = false;
  for (const { manager, fieldsV1 } of entries ?? []) {
    const fields = fieldsV1 as FieldSet | undefined;
    if (fields === undefined) continue;
    if (manager !== FIELD_MANAGER) {
      foreign ||= Object.keys(fields).some((field) => !NOT_CONTENT.has(field));
      continue;
    }
    own = true;
    immutable ||= Object.hasOwn(fields, 'f:immutable');
    for (const field in fields) if (!NOT_CONTENT.has(field)) keys.push(...members(fields[field]));
    const metadata = fields['f:metadata'] as FieldSet | undefined;
    labels = members(metadata?.['f:labels']);
    annotations = members(metadata?.['f:annotations']);
  }
  const ownKeys = own && !foreign ? joinKeys(keys) : undefined;
  return { ownKeys, ownLabels: labels, ownAnnotations: annotations, ...(immutable ? { ownImmutable: true } : {}) };
}

/** Names of the members of a field that is a map: `{"f:a": {}, ".": {}}` → `a`. */
function members(field: Readonly<Record<string, unknown>> | undefined): readonly string[] {
  if (field === undefined) return NO_KEYS;
  return Object.keys(field)
    .filter((key) => key.startsWith('f:'))
    .map((key) => key.slice(2));
}
