/**
 * The marks on SyncSecrets and Secrets. A mark names the object from which the marked object was made.
 *
 *   Secret ──synchronizer──▶ SyncSecret ──CCM──▶ copy in the management cluster ──manager──▶ Secret
 *          SECRET_ANNOTATION            ORIGIN_ANNOTATION                         OWNER_ANNOTATION
 */
import { createHash } from 'node:crypto';
import { OWN_PREFIX } from '../../common/excluded-metadata.ts';
import type { ObjectMeta } from '../../../kube/api.ts';
import { ORIGIN_LABELS } from '../api.ts';

/** On a copy in the management cluster: `<uid of the tenant's kube-system>/<namespace>/<name>` of the SyncSecret. */
export const ORIGIN_ANNOTATION = `${OWN_PREFIX}origin`;
/** On a Secret: the name of its SyncSecret in the same namespace. */
export const OWNER_ANNOTATION = `${OWN_PREFIX}syncsecret`;
/** On a SyncSecret of the synchronizer: the name of its Secret in the same namespace. */
export const SECRET_ANNOTATION = `${OWN_PREFIX}secret`;
/** On a Secret of type Opaque: the type of its SyncSecret, if Keyferry never creates Secrets of that type. */
export const ORIGINAL_TYPE_ANNOTATION = `${OWN_PREFIX}original-type`;
/** On every copy: the version of the source's content that it has. */
export const SOURCE_VERSION_ANNOTATION = `${OWN_PREFIX}source-version`;
/** The value of `COPY_LABEL` on a Secret of the manager. */
export const COPY_OF_SYNC_SECRET = 'syncsecret';

const READ_ANNOTATIONS: ReadonlySet<string> = new Set([
  ORIGIN_ANNOTATION,
  OWNER_ANNOTATION,
  SECRET_ANNOTATION,
  ORIGINAL_TYPE_ANNOTATION,
  SOURCE_VERSION_ANNOTATION,
]);

/** Whether the controllers read an annotation. Tenants may write any number of others with the prefix. @see IsRead */
export function isReadMark(annotation: string): boolean {
  return READ_ANNOTATIONS.has(annotation);
}

/** Stands for the uid of a cluster whose namespace kube-system cannot be read. */
export const UNKNOWN_CLUSTER = 'unknown';

/** Maximum length of a label's value. */
const MAX_LABEL = 63;
const HASH_DIGITS = 10;

/** A name as the value of a label. Longer names are cut, and end with a hash. */
export function labelValue(name: string): string {
  if (name.length <= MAX_LABEL) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, HASH_DIGITS);
  return `${name.slice(0, MAX_LABEL - HASH_DIGITS - 1).replace(/[-.]+$/, '')}-${hash}`;
}

/** The labels of a copy that name its origin. */
export function originLabels(namespace: string, name: string): Record<string, string> {
  return {
    [ORIGIN_LABELS.name]: labelValue(name),
    [ORIGIN_LABELS.namespace]: labelValue(namespace),
    [ORIGIN_LABELS.documentedNamespace]: labelValue(namespace),
  };
}

/** A valid `<namespace>/<name>`. A tenant can write any text into an annotation. */
const PLACE = /^[a-z0-9][a-z0-9.-]*\/[a-z0-9][a-z0-9.-]*$/;

/**
 * For messages: `<namespace>/<name>` of the tenant's SyncSecret that an object in the management cluster was made from;
 * `undefined`: it names none. Secrets and copies of KubeLB name it only in labels, in which long names are shortened.
 */
export function originPlace({
  labels,
  annotations,
}: {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}): string | undefined {
  const mark = annotations[ORIGIN_ANNOTATION] ?? '';
  const marked = mark.slice(mark.indexOf('/') + 1);
  if (PLACE.test(marked)) return marked;
  const namespace = labels[ORIGIN_LABELS.namespace] ?? labels[ORIGIN_LABELS.documentedNamespace];
  const labelled = `${namespace ?? ''}/${labels[ORIGIN_LABELS.name] ?? ''}`;
  return PLACE.test(labelled) ? labelled : undefined;
}

/** The object that the marks of a SyncSecret name. `itself`: a synchronizer made it of a Secret. `another`: a copy. */
export type Origin = 'none' | 'itself' | 'another';

export function originOf({
  name,
  namespace = '',
  labels = {},
  annotations = {},
}: Pick<ObjectMeta, 'name' | 'namespace' | 'labels' | 'annotations'>): Origin {
  const mark = annotations[ORIGIN_ANNOTATION];
  if (mark !== undefined) return mark.endsWith(`/${namespace}/${name}`) ? 'itself' : 'another';
  // The synchronizer made this SyncSecret, even if somebody has changed its labels.
  if (annotations[SECRET_ANNOTATION] === name) return 'itself';
  const originName = labels[ORIGIN_LABELS.name];
  const originNamespace = labels[ORIGIN_LABELS.namespace] ?? labels[ORIGIN_LABELS.documentedNamespace];
  if (originName === undefined && originNamespace === undefined) return 'none';
  return originName === labelValue(name) && originNamespace === labelValue(namespace) ? 'itself' : 'another';
}
