/**
 * The part of a watched object that stays in memory: enough to plan with, and nothing that can be secret.
 *
 * Two parts of the metadata are dropped. `last-applied-configuration` can contain the values of a Secret that was
 * created with `kubectl apply`. Of `managedFields` only the names of the data keys that Keyferry wrote last are kept,
 * and only if no other client wrote data. So Keyferry notices changes by other clients without reading values.
 *
 * An object may have 256 KiB of annotations and even more labels, and a user may create thousands of such objects. So
 * labels and annotations that no controller reads are kept up to 16 KiB. A value above 32 KiB is replaced by its length
 * and digest.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { ManagedFieldsEntry, ObjectMeta, OwnerReference } from '../../kube/api.ts';
import { type Fingerprint, joinKeys } from './content.ts';
import type { KeyLists } from './key-lists.ts';
import type { ObjectName } from './keys.ts';

/** Keyferry's name in `metadata.managedFields`. */
export const FIELD_MANAGER = 'keyferry';

/**
 * The field manager of writes to rules. It differs from that of copies, because the object of a rule may be a copy too,
 * and the write of a copy removes labels and annotations that its own manager wrote and that the copy does not need.
 */
export const RULES_MANAGER = 'keyferry-rules';

/** Whether Keyferry wrote the fields of this manager. Earlier versions wrote rules with the manager of copies. */
export function isOwnManager(manager: string | undefined): boolean {
  return manager === FIELD_MANAGER || manager === RULES_MANAGER;
}
/** Label of all copies, by which people and policies recognise copies. Its value is the name of the controller. */
export const COPY_LABEL = 'keyferry.dev/copy';
/** Each copy has this annotation besides the mark of its owner. It holds the copy's own `<namespace>/<name>`. */
export const PLACE_ANNOTATION = 'keyferry.dev/target';
/**
 * On an object of a user that only got keys: the `<namespace>/<name>` of their source. It is no copy, so it is never deleted,
 * and the marks of controllers that make whole copies do not count on it.
 */
export const MERGED_FROM = 'keyferry.dev/merged-from';
export const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

export interface Observed {
  readonly uid: string;
  readonly resourceVersion: string;
  /** Set only for a custom resource. @see contentVersion */
  readonly generation?: number;
  /** Creation time, RFC 3339, as the server sent it. */
  readonly created: string;
  readonly deleting: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** The data keys that Keyferry wrote, as text. `undefined`: another client wrote data, type or `immutable`. */
  readonly ownKeys: string | undefined;
  /** The labels and annotations that Keyferry wrote last. It removes them when they are no longer desired. */
  readonly ownLabels: readonly string[];
  readonly ownAnnotations: readonly string[];
  /** The owner references of the object as text (see `ownersText`); absent: it has none. */
  readonly owners?: string;
  /** Keyferry itself made the object immutable. */
  readonly ownImmutable?: true;
  /** Some labels or annotations were too long to keep. */
  readonly trimmed?: true;
  /** The annotations almost reach the API server's limit. */
  readonly full?: true;
  /** Set if a watch reports the whole object and not only its metadata. */
  readonly content?: KeptContent;
}

/** What the index keeps of the content of an object that a watch brings with its data. */
export interface KeptContent {
  /** The object's revision (`revisionOf`) when it had this content. For a later revision the content is unknown. */
  readonly revision: number | string;
  fingerprint: Fingerprint;
  readonly immutable: boolean;
  /** The type of a Secret; '' for a kind without types; `undefined`: not known. */
  readonly type?: string | undefined;
  /** The kept part of the object's status, which may be newer than the content. */
  readonly status?: object | undefined;
}

export interface ObserveOptions {
  /** @see Kind.isCustom */
  readonly isCustom?: boolean | undefined;
  /** Shares equal values between objects, to save memory. */
  readonly lists?: KeyLists;
  /** Default: every annotation counts as read by a controller. */
  readonly isRead?: IsRead | undefined;
}

/** Whether a controller reads this annotation. `true`: always kept. `false`: if there is room. `undefined`: never. */
export type IsRead = (annotation: string) => boolean | undefined;

const NONE: Readonly<Record<string, string>> = Object.freeze({});
const NO_KEYS: readonly string[] = Object.freeze([]);

/** Most characters of labels, and of annotations, that no controller reads. Usual objects have fewer. */
export const MAX_KEPT = 16 * 1024;
/** Longest value that is kept, characters: enough for the names of two thousand namespaces. */
export const MAX_VALUE = 32 * 1024;
/** The API server's limit for the annotations of an object, bytes of all names and values. */
const MOST_ANNOTATIONS = 256 * 1024;
/** An object with less room for annotations than this counts as full, bytes. A few annotations of Keyferry fit. */
const LEAST_ROOM = 1024;
/** Longest text of the owner references of an object, characters; a longer text is replaced by its digest. */
const MAX_OWNERS = 4096;

type NameInNamespace = Pick<ObjectName, 'namespace' | 'name'>;

/** The value that `PLACE_ANNOTATION` has on the object with this name. */
export function placeText({ namespace, name }: NameInNamespace): string {
  return `${namespace}/${name}`;
}

/** Whether the marks on this object were written for another object, and copied from there. @see Claims.ownersOf */
export function isMarkedElsewhere(annotations: Texts, place: NameInNamespace): boolean {
  const marked = annotations[PLACE_ANNOTATION];
  return marked !== undefined && marked !== placeText(place);
}

/** A namespace in an index, with the strings and values that its objects share. */
export interface KeptIn {
  readonly name: string;
  readonly lists: KeyLists;
}

/**
 * An object in an index of watched objects. `feeds` has a bit for each watch that reports it. There are tens of
 * thousands of objects, so all copies of a source share one object for their labels and one for their annotations. Only
 * `PLACE_ANNOTATION` differs. If it names the copy itself, it is not stored, but added when annotations are read.
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
  // Rare fields. Because of `declare`, an object without them needs no memory for them.
  declare readonly generation?: number;
  declare readonly owners?: string;
  declare readonly ownImmutable?: true;
  declare readonly trimmed?: true;
  declare readonly full?: true;
  declare content?: KeptContent;

  /** @param keptIn `undefined`: the object is in no index @param name the string that is also the key in the index */
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

/** The part of an object's metadata that stays in memory. */
export function observe(meta: ObjectMeta, options: ObserveOptions = {}): Observed {
  return new Slot(meta, options);
}

/**
 * The version of an object's content. A write of the status changes the resourceVersion of a custom resource, but not
 * its generation. So its version is uid and generation; for other kinds it is the resourceVersion.
 */
export function contentVersion({
  uid,
  generation,
  resourceVersion,
}: Pick<Observed, 'uid' | 'generation' | 'resourceVersion'>): string {
  return versionAt(uid, generation ?? resourceVersion);
}

/** The content version of the object with this uid at this revision. */
export function versionAt(uid: string, revision: number | string): string {
  return typeof revision === 'string' ? revision : `${uid}:${revision}`;
}

/** Whether the kept metadata of two versions of an object are equal, apart from the resourceVersion. */
export function sameButVersion(a: Observed, b: Observed): boolean {
  return isDeepStrictEqual(withoutVersion(a), withoutVersion(b));
}

function withoutVersion(observed: Observed): object {
  return { ...observed, annotations: observed.annotations, resourceVersion: '', feeds: 0, content: undefined };
}

/** Whether the object is immutable, as far as its metadata shows. `undefined`: another client may have made it so. */
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

/** The part of a content version that changes: without the uid, which the object has anyway, to save memory. */
export function revisionOf(
  { resourceVersion, generation = 0 }: Pick<ObjectMeta, 'resourceVersion' | 'generation'>,
  { isCustom = false }: Pick<ObserveOptions, 'isCustom'>,
): number | string {
  return isCustom ? generation : resourceVersion;
}

/** Owner references as text. Equal references have equal texts. */
export function ownersText(references: readonly OwnerReference[]): string {
  const lines = references.map(({ apiVersion, kind, name, uid, controller, blockOwnerDeletion }) => {
    return [apiVersion, kind, name, uid, String(controller === true), String(blockOwnerDeletion === true)].join(' ');
  });
  const text = lines.join('\n');
  return text.length <= MAX_OWNERS ? text : tooLong(text);
}

/** The owner references in a text of `ownersText`; `undefined`: it is a digest. */
export function ownersIn({ owners = '' }: Pick<Observed, 'owners'>): readonly OwnerReference[] | undefined {
  if (owners.startsWith(TOO_LONG)) return undefined;
  const lines = owners === '' ? [] : owners.split('\n');
  return lines.map((line): OwnerReference => {
    const [apiVersion = '', kind = '', name = '', uid = '', controller, blocks] = line.split(' ');
    const reference = { apiVersion, kind, name, uid };
    if (controller === 'true') Object.assign(reference, { controller: true });
    if (blocks === 'true') Object.assign(reference, { blockOwnerDeletion: true });
    return reference;
  });
}

type Texts = Readonly<Record<string, string>>;

function isFull(annotations: Texts): boolean {
  let length = 0;
  for (const key in annotations) length += key.length + (annotations[key]?.length ?? 0);
  // A character takes at most three bytes. So if there are few characters, the bytes need not be counted.
  if (length * 3 <= MOST_ANNOTATIONS - LEAST_ROOM) return false;
  let bytes = 0;
  for (const key in annotations) bytes += Buffer.byteLength(key) + Buffer.byteLength(annotations[key] ?? '');
  return bytes > MOST_ANNOTATIONS - LEAST_ROOM;
}

/**
 * The labels or annotations that stay in memory. If the map is not empty, at least one key stays, because the JSON
 * patch for an empty map differs (`changes` in `object-writer.ts`).
 * @param except a key that the caller stores itself
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

/** Begins the text that replaces a long value. No usual value begins with this character. */
const TOO_LONG = '\0too long: ';

/** Replaces a long value by its length and digest, so that different values have different replacements. */
function tooLong(value: string): string {
  const digest = createHash('sha256').update(value).digest('base64url');
  return `${TOO_LONG}${value.length} characters, ${digest}`;
}

/** The error message for a value that was too long to keep; `undefined`: it was not. */
export function lengthProblem(value: string): string | undefined {
  if (!value.startsWith(TOO_LONG)) return undefined;
  return `it has ${Number.parseInt(value.slice(TOO_LONG.length), 10)} characters; the maximum is ${MAX_VALUE}`;
}

/** Fields that have no content in any kind, so other clients may write them. */
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

/** The names in a field set of `managedFields`: `{"f:a": {}, ".": {}}` → `a`. */
function members(field: Readonly<Record<string, unknown>> | undefined): readonly string[] {
  if (field === undefined) return NO_KEYS;
  return Object.keys(field)
    .filter((key) => key.startsWith('f:'))
    .map((key) => key.slice(2));
}
