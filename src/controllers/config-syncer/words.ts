/**
 * The annotations and labels of config-syncer (kubed), and how they are read: whom a source selects, and which source
 * the marks of a copy name. Pure.
 */
import { createHash } from 'node:crypto';
import { because, type Cause } from '../../copy/model/cause.ts';
import { lengthProblem, PLACE_ANNOTATION } from '../../copy/model/observed.ts';
import { isDnsLabel } from '../../runtime/text/dns-names.ts';
import { parseSelector } from '../../runtime/text/label-selector.ts';
import { ANY_NAME } from '../../runtime/text/name-patterns.ts';
import { clipped } from '../../runtime/text/texts.ts';
import { illFormed, type Place } from '../common/annotated/values.ts';
import type { NamespaceSelection } from '../common/namespaces/selection.ts';

type Texts = Readonly<Record<string, string>>;

const PREFIX = 'kubed.appscode.com/';

export const NAMES = {
  /** On a source: a selector for the labels of namespaces; empty or `true`: every namespace. */
  sync: `${PREFIX}sync`,
  /** On a source: contexts of the kubeconfig with the other clusters. */
  contexts: `${PREFIX}sync-contexts`,
  /** On a copy: a reference to its source, as JSON. */
  origin: `${PREFIX}origin`,
} as const;

/** On a copy: what names its source. */
const LABELS = {
  name: `${PREFIX}origin.name`,
  namespace: `${PREFIX}origin.namespace`,
  cluster: `${PREFIX}origin.cluster`,
} as const;

/**
 * Keyferry's own mark on a copy: `<namespace>/<name>` of its source; in another cluster, the uid of the source's cluster and
 * a slash precede. It counts whatever becomes of the labels.
 */
export const MARK = 'keyferry.dev/synced-from';

export function isRule(annotations: Texts): boolean {
  return NAMES.sync in annotations || NAMES.contexts in annotations;
}

export function isReadAnnotation(annotation: string): boolean {
  return annotation.startsWith(PREFIX) || annotation === MARK;
}

/** The annotations that decide about the claims of an object, as text. */
export function userText(annotations: Texts): string {
  return JSON.stringify([NAMES.sync, NAMES.contexts].map((name) => annotations[name] ?? null));
}

/** The namespaces that a source selects, or what is wrong with the annotation; `undefined`: there is none. */
export function selectionIn(annotations: Texts): NamespaceSelection | Cause | undefined {
  const text = annotations[NAMES.sync];
  if (text === undefined) return undefined;
  const problem = lengthProblem(text);
  if (problem !== undefined) return illFormed(NAMES.sync, undefined, problem);
  try {
    return {
      names: new Set(),
      patterns: [ANY_NAME],
      labels: parseSelector(text === 'true' ? '' : text),
    };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return illFormed(NAMES.sync, text, error.message);
  }
}

/** The labels of a copy that name its source. */
export function originLabels({ namespace, name }: Place, clusterName: string): Record<string, string> {
  return {
    [LABELS.name]: labelOf(name),
    [LABELS.namespace]: namespace,
    [LABELS.cluster]: clusterName,
  };
}

/** A name as the value of a label, which has at most 63 characters: a longer one gets a digest in place of its end. */
export function labelOf(name: string): string {
  if (name.length <= 63) return name;
  return `${name.slice(0, 52)}-${createHash('sha256').update(name).digest('hex').slice(0, 10)}`;
}

/**
 * The source in the marks of an object at `home`; `undefined`: they name none.
 * The original also stamps sources as copies of themselves: these are nobody's copies.
 */
export function sourceIn(home: Place, labels: Texts, annotations: Texts, clusterName: string): Place | undefined {
  const source =
    PLACE_ANNOTATION in annotations ? ownMarkIn(annotations) : originalMarkIn(home, labels, annotations, clusterName);
  return source?.name === home.name && source.namespace !== home.namespace ? source : undefined;
}

function ownMarkIn(annotations: Texts): Place | undefined {
  const [namespace = '', name = '', ...more] = annotations[MARK]?.split('/') ?? [];
  return isDnsLabel(namespace) && more.length === 0 ? { namespace, name } : undefined;
}

/** Labels alone prove nothing: people copy them. The original also writes the annotation, which names the source in full. */
function originalMarkIn({ name }: Place, labels: Texts, annotations: Texts, clusterName: string): Place | undefined {
  const namespace = labels[LABELS.namespace] ?? '';
  if (labels[LABELS.name] !== labelOf(name) || labels[LABELS.cluster] !== clusterName) return undefined;
  const origin = isDnsLabel(namespace) ? originIn(annotations) : undefined;
  return origin?.namespace === namespace && origin.name === name ? { namespace, name } : undefined;
}

/** The cluster in the marks that another cluster's copier left on an object; `undefined`: it has none. */
export function otherClusterIn(labels: Texts, clusterName: string): string | undefined {
  const cluster = LABELS.name in labels ? labels[LABELS.cluster] : undefined;
  return cluster === clusterName ? undefined : cluster;
}

export function originConflict(cluster: string, clusterName: string): Cause {
  const [theirs, ours] = [cluster, clusterName].map((name) => JSON.stringify(clipped(name, 63)));
  return because(
    'OriginConflict',
    `the object is a copy from the cluster ${theirs} (label ${LABELS.cluster}); this cluster is ${ours}`,
  );
}

/** The contexts that a source names. As in the original, spaces are part of a name. */
export function contextsIn(annotations: Texts): readonly string[] {
  const text = annotations[NAMES.contexts] ?? '';
  return text === '' || lengthProblem(text) !== undefined ? [] : [...new Set(text.split(','))];
}

export function isItself(context: string): Cause {
  return because('Unsupported', `annotation ${NAMES.contexts} (${JSON.stringify(context)}): it is this cluster itself`);
}

/** Why it is not known which cluster a context leads to. */
export function notIdentified(cluster: string, isRefused: boolean): Cause {
  if (isRefused) {
    const advice = 'grant get on the namespace kube-system';
    return because('Forbidden', `the identity of the cluster ${cluster} cannot be read: ${advice}`);
  }
  return because('ClusterUnreachable', `the cluster ${cluster} does not answer`);
}

/** Why nothing more is written in a cluster whose server was replaced. */
export function isReplaced(cluster: string): Cause {
  const message = `the context of the cluster ${cluster} leads to another cluster than before: restart Keyferry`;
  return because('Unsupported', message);
}

/** The value of `MARK` on copies in other clusters. @param uid of the source's cluster */
export function farMark(uid: string, { namespace, name }: Place): string {
  return `${uid}/${namespace}/${name}`;
}

/**
 * The source in this cluster that the marks of an object in another cluster name; `undefined`: they name none.
 * @param uid of this cluster @param uidOf gives the uid of a source: the name of a cluster proves nothing, because the
 * original's chart gives all clusters the same
 */
export function farSourceIn(
  home: Place,
  { labels, annotations }: { readonly labels: Texts; readonly annotations: Texts },
  own: {
    readonly clusterName: string;
    readonly uid: string;
    readonly uidOf: (source: Place) => string | undefined;
  },
): Place | undefined {
  if (!(PLACE_ANNOTATION in annotations)) {
    const source = originalMarkIn(home, labels, annotations, own.clusterName);
    const uid = source && own.uidOf(source);
    return uid !== undefined && originIn(annotations)?.uid === uid ? source : undefined;
  }
  const [uid, namespace = '', name, ...more] = annotations[MARK]?.split('/') ?? [];
  return uid === own.uid && name === home.name && more.length === 0 ? { namespace, name } : undefined;
}

/** What a copy says of its source. */
export interface Origin extends Place {
  readonly uid: string;
  readonly resourceVersion: string;
}

export function originText({ namespace, name, uid, resourceVersion }: Origin): string {
  return JSON.stringify({ namespace, name, uid, resourceVersion });
}

/** @returns `undefined`: the annotation is missing, or cannot be read */
export function originIn(annotations: Texts): Partial<Origin> | undefined {
  try {
    const value = JSON.parse(annotations[NAMES.origin] ?? '') as unknown;
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
