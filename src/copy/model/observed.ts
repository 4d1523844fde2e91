/**
 * The stored part of a watched object: enough to plan with, and nothing that could be secret.
 *
 * `last-applied-configuration` (it has the values of a Secret that was created by `kubectl apply`) and `managedFields` are dropped. From the
 * latter the data keys of which Keyferry is the last writer are kept, if no other client wrote any: this shows changes by other clients
 * without reading values.
 *
 * An object may have 256 KiB of annotations and more of labels, and a user may create thousands of such objects. So labels and annotations
 * that no controller reads are kept up to 16 KiB, and single values up to 32 KiB: longer values are replaced by their length and digest.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { ManagedFieldsEntry, ObjectMeta, OwnerReference } from '../../kube/api.ts';
import { ByteCache } from '../../runtime/maps.ts';
import { flatText } from '../../runtime/text/texts.ts';
import type { ObjectName } from './keys.ts';

/** Our name in `metadata.managedFields`. */
export const FIELD_MANAGER = 'keyferry';
/** On every copy, written along with the mark of its owner: `<namespace>/<name>` of the copy itself. */
export const PLACE_ANNOTATION = 'keyferry.dev/target';
export const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

export interface Observed {
  readonly uid: string;
  readonly resourceVersion: string;
  /** Of custom resources only. @see contentVersion */
  readonly generation?: number;
  /** RFC 3339, as the server gave it. */
  readonly created: string;
  readonly deleting: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** The data keys of which Keyferry is the only writer, joined; `undefined` if another client wrote data, type or `immutable`. */
  readonly ownKeys: string | undefined;
  /** The labels and annotations of which Keyferry is the last writer. They are removed when they are no longer desired. */
  readonly ownLabels: readonly string[];
  readonly ownAnnotations: readonly string[];
  /** Its owner references, if it has any. @see ownersText */
  readonly owners?: string;
  /** Keyferry has made it immutable. */
  readonly ownImmutable?: true;
  /** Some of its labels or annotations were not kept. */
  readonly trimmed?: true;
  /** Its annotations almost reach the limit of the API server. */
  readonly full?: true;
  /** Of an object that a watch brings whole. */
  readonly content?: KeptContent;
}

/** What a store keeps of the content of an object that a watch brings whole, see `StoredContent` there. */
export interface KeptContent {
  /** `revisionOf` the object that had this content: of a later one, the content is not known. */
  readonly revision: number | string;
  /** What is kept of the status of the object, which may be newer than the content. */
  readonly status?: object | undefined;
}

export interface ObserveOptions {
  /** @see Kind.isCustom */
  readonly isCustom?: boolean | undefined;
  /** Shares equal values between objects. */
  readonly lists?: KeyLists;
  /** Default: all are read. */
  readonly isRead?: IsRead | undefined;
}

/** Whether a controller reads an annotation: then the annotation is always kept. `undefined`: never kept, because no decision depends on it. */
export type IsRead = (annotation: string) => boolean | undefined;

const NONE: Readonly<Record<string, string>> = Object.freeze({});
const NO_KEYS: readonly string[] = Object.freeze([]);

/** Kept size of labels that no controller reads, and of such annotations, in characters: more than usual objects have, and 16 MB for a thousand objects. */
export const MAX_KEPT = 16 * 1024;
/** Longest value that is kept: two thousand names of namespaces. */
export const MAX_VALUE = 32 * 1024;
/** Limit of the API server for all annotations of an object, in bytes of names and values. */
const MOST_ANNOTATIONS = 256 * 1024;
/** An object with less room than this is full, bytes: enough for a few annotations of Keyferry. */
const LEAST_ROOM = 1024;
/** Owner references that are longer together are replaced by their digest. */
const MAX_OWNERS = 4096;
/** Data keys that are longer together are replaced by their digest. */
const MAX_KEYS = 1024;

/** The value of `PLACE_ANNOTATION`. */
export function placeText({ namespace, name }: Pick<ObjectName, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`;
}

/** A namespace of an index: the strings and values that its objects share. */
export interface KeptIn {
  readonly name: string;
  readonly lists: KeyLists;
}

/**
 * An object of an index, with the bits of the feeds that confirm it.
 *
 * There are tens of thousands, so all copies of a source share their labels and annotations. Of these, the place is another one on each copy:
 * where it is the copy's own, it is left out, and made again for each reader.
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
  // Rare: with `declare`, an object without them has no room for them.
  declare readonly generation?: number;
  declare readonly owners?: string;
  declare readonly ownImmutable?: true;
  declare readonly trimmed?: true;
  declare readonly full?: true;
  declare content?: KeptContent;

  /** @param keptIn `undefined`: no index keeps it @param name the string that the index has anyway */
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
 * The version of an object's content. A write of the status changes the resourceVersion of a custom resource, but not its generation. So
 * for custom resources the version is uid and generation; for other kinds it is the resourceVersion.
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

/** Whether two versions of an object differ in nothing that is stored of its metadata but the resourceVersion. */
export function sameButVersion(a: Observed, b: Observed): boolean {
  return isDeepStrictEqual(withoutVersion(a), withoutVersion(b));
}

function withoutVersion(observed: Observed): object {
  return { ...observed, annotations: observed.annotations, resourceVersion: '', feeds: 0, content: undefined };
}

/** Whether an object is immutable, as its metadata show it. `undefined`: another client may have made it immutable. */
export function immutableBy({ ownImmutable, ownKeys }: Observed): boolean | undefined {
  if (ownImmutable === true) return true;
  return ownKeys === undefined ? undefined : false;
}

/** As `contentVersion`, of an object as the server returned it. */
export function versionOf(
  meta: Pick<ObjectMeta, 'uid' | 'resourceVersion' | 'generation'>,
  kind: Pick<ObserveOptions, 'isCustom'>,
): string {
  return versionAt(meta.uid, revisionOf(meta, kind));
}

/** The part of that version which changes. For thousands of objects it is kept without the uid, which they have. */
export function revisionOf(
  { resourceVersion, generation = 0 }: Pick<ObjectMeta, 'resourceVersion' | 'generation'>,
  { isCustom = false }: Pick<ObserveOptions, 'isCustom'>,
): number | string {
  return isCustom ? generation : resourceVersion;
}

/** A text for owner references: the same text for the same references. */
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
 * Keeps at least one key of a map that is not empty: the JSON patch for an empty map differs (`changes` in `object-writer.ts`).
 * @param except a key that the caller keeps
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

/** Joins data keys for `Observed.ownKeys`; very many become a digest. A key of a custom resource can be any text. */
export function joinKeys(keys: Iterable<string>): string {
  const sorted = [...keys].sort();
  const joined = sorted.every((key) => USUAL_KEY.test(key)) ? sorted.join(',') : JSON.stringify(sorted);
  return joined.length <= MAX_KEYS ? joined : createHash('sha256').update(joined).digest('base64');
}

/** Fields that other clients may write: they are not content of any kind. */
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

/** Longer values are in a cache of their own. */
const LONG = 64;
/** Shorter values, lists and maps that are stored, of each, before all are dropped: users choose them. */
const MAX_SHORT = 1000;
/** Longest map that is shared, characters. */
const MAX_MAP = 1024;
/** Stored long values, bytes. */
const TEXTS_BYTES = 8 * 1024 * 1024;

/** Shares values that many objects have in common: for a thousand copies this saves half a megabyte. */
export class KeyLists {
  readonly #texts = new ByteCache<string>({ maxBytes: TEXTS_BYTES });
  readonly #short = new Map<string, string>();
  readonly #maps = new Map<string, object>();
  readonly #lists = new Map<string, readonly string[]>();
  /** The last annotations with a place, because one decision reads them twenty times. */
  lastRead: { readonly slot: Slot; readonly annotations: Texts } | undefined;

  /** The shared copy of a text: a list of namespaces on every copy. */
  text(value: string): string {
    if (value.length < LONG) return shared(this.#short, value, () => value);
    const known = this.#texts.get(value);
    if (known === undefined) this.#texts.set(value, value, 2 * value.length + LONG);
    return known ?? value;
  }

  /** The shared list of these names: the labels that Keyferry writes to every copy. */
  share(names: readonly string[]): readonly string[] {
    const key = names.join('\n');
    // Names from the joined text do not keep alive the text that the originals were parsed from.
    return shared(this.#lists, key, () => Object.freeze(key === '' ? [] : key.split('\n')));
  }

  /** The shared copy of a map, or of a status: all copies of a source have the same labels. The value must never change. */
  map<Value extends object>(value: Value): Value {
    const text = JSON.stringify(value);
    return text.length > MAX_MAP ? value : (shared(this.#maps, text, () => value) as Value);
  }
}

/** The stored value of the key. If there is none, `make` creates it. */
function shared<T>(known: Map<string, T>, key: string, make: () => T): T {
  const value = known.get(key);
  if (value !== undefined) return value;
  if (known.size >= MAX_SHORT) known.clear();
  const made = make();
  known.set(key, made);
  return made;
}
