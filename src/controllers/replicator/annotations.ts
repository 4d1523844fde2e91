/**
 * The annotations of k8s-replicator v1.3.0 under a prefix that can be chosen: seven that users write, five that the
 * controller writes. Objects marked by the original are understood, and the original understands ours.
 */
import { PLACE_ANNOTATION } from '../../copy/plan/marks.ts';
import { lengthProblem } from '../../copy/model/observed.ts';
import { parseBool } from '../../runtime/go-bool.ts';

export type Annotations = Readonly<Record<string, string>>;

export interface AnnotationNames {
  /** On a target: `<namespace>/<name>` or `<name>` of what it is filled from. */
  readonly from: string;
  /** On a source: names, or `<namespace or pattern>/<name>`, of the copies to make. */
  readonly to: string;
  /** On a source: namespaces, or patterns of them, to copy into. */
  readonly toNamespaces: string;
  readonly once: string;
  readonly onceVersion: string;
  readonly allowed: string;
  readonly allowedNamespaces: string;
  /** When the target was last written or cleared. */
  readonly at: string;
  /** The mark of ownership on copies: `<namespace>/<name>` of the source that made them. */
  readonly by: string;
  /** The source's resourceVersion when it was copied. That it is there means that the target holds data. */
  readonly version: string;
  /** Where a chain of replicate-from begins: guards against loops. */
  readonly origin: string;
  /** Which namespaces a chain may still go to: `.*`, `-` or a list. */
  readonly inherited: string;
  /** With the slash; '' if the names are bare. */
  readonly prefix: string;
}

/** @param prefix with or without the slash; '' for bare names */
export function annotationNames(prefix: string): AnnotationNames {
  const start = prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`;
  return {
    from: `${start}replicate-from`,
    to: `${start}replicate-to`,
    toNamespaces: `${start}replicate-to-namespaces`,
    once: `${start}replicate-once`,
    onceVersion: `${start}replicate-once-version`,
    allowed: `${start}replication-allowed`,
    allowedNamespaces: `${start}replication-allowed-namespaces`,
    at: `${start}replicated-at`,
    by: `${start}replicated-by`,
    version: `${start}replicated-from-version`,
    origin: `${start}replicated-from-origin`,
    inherited: `${start}replicated-from-allowed`,
    prefix: start,
  };
}

/** What users write. */
export function userNames(names: AnnotationNames): readonly string[] {
  const { from, to, toNamespaces, once, onceVersion, allowed, allowedNamespaces } = names;
  return [from, to, toNamespaces, once, onceVersion, allowed, allowedNamespaces];
}

/** The annotations under the prefix that nobody knows. None where the names are bare: then there is no telling. */
export function unknownAnnotations(names: AnnotationNames, annotations: Annotations): string[] {
  if (names.prefix === '') return [];
  const known = new Set([...Object.values(names), PLACE_ANNOTATION]);
  return Object.keys(annotations).filter((key) => key.startsWith(names.prefix) && !known.has(key));
}

/** Whether an object concerns the replicator at all. Called for every object of the cluster. */
export function isAnnotated(names: AnnotationNames, annotations: Annotations | undefined): boolean {
  if (annotations === undefined) return false;
  if (names.prefix === '') {
    for (const name of Object.values(names)) if (name !== '' && name in annotations) return true;
    return false;
  }
  for (const key in annotations) if (key.startsWith(names.prefix)) return true;
  return false;
}

/** Whether an annotation is one of the replicator's, known or not. */
export function isReplicators(names: AnnotationNames, annotation: string): boolean {
  return names.prefix === '' ? Object.values(names).includes(annotation) : annotation.startsWith(names.prefix);
}

/** Why nothing is done, or why something is taken away. */
export interface Refusal {
  /** A word for events and status. */
  readonly reason: 'IllFormed' | 'UnknownAnnotation' | 'Denied' | 'Loop';
  readonly message: string;
}

export function illFormed(annotation: string, value: string, why: string): Refusal {
  return { reason: 'IllFormed', message: `annotation ${annotation} (${clip(value)}): ${why}` };
}

export function unknown(where: string, annotations: readonly string[]): Refusal {
  const named = annotations.slice(0, 5).map((key) => clip(key));
  return { reason: 'UnknownAnnotation', message: `${where} has unknown annotation ${named.join(', ')}` };
}

/** Why nothing is done with an object that has an annotation which is too long to be read. */
export function tooLongOn(names: AnnotationNames, annotations: Annotations): Refusal | undefined {
  for (const name of userNames(names)) {
    const problem = lengthProblem(annotations[name] ?? '');
    if (problem !== undefined) return { reason: 'IllFormed', message: `annotation ${name}: ${problem}` };
  }
  const inherited = lengthProblem(annotations[names.inherited] ?? '');
  return inherited === undefined
    ? undefined
    : { reason: 'IllFormed', message: `annotation ${names.inherited}: ${inherited}` };
}

/** A value as it can stand in an event: a long list would fill it. */
function clip(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
}

/** `false` where the annotation is absent. */
export function readBool(annotations: Annotations, name: string): boolean | Refusal {
  const text = annotations[name];
  if (text === undefined) return false;
  try {
    return parseBool(text);
  } catch {
    // Its only error is that the text is none of Go's words for true and false.
    return illFormed(name, text, 'must be true or false');
  }
}

const NAME = /^[0-9a-z.-]+$/;

/** Whether an item is a name rather than a pattern. `team.` is one: a dot alone makes no pattern. */
export function isName(text: string): boolean {
  return NAME.test(text);
}

/** Whether a name can stand in the path of a request: `.` and `..` lead elsewhere. */
export function isPathName(text: string): boolean {
  return isName(text) && text !== '.' && text !== '..';
}

/** A comma list as the original reads it: split before anything else, nothing trimmed, empty items left out. */
export function listItems(text: string): string[] {
  return text.split(',').filter((item) => item !== '');
}

/** The object that `replicate-from` names, as `<namespace>/<name>`. */
export function sourcePath(
  names: AnnotationNames,
  home: { readonly namespace: string; readonly name: string },
  value: string,
): string | Refusal {
  const path = value.includes('/') ? value : `${home.namespace}/${value}`;
  const [namespace = '', name = '', ...more] = path.split('/');
  if (!isPathName(namespace) || !isPathName(name) || more.length > 0) {
    return illFormed(names.from, value, 'must be <namespace>/<name> or <name>');
  }
  if (path === `${home.namespace}/${home.name}`) return illFormed(names.from, value, 'names the object itself');
  return path;
}
