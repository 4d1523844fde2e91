/**
 * The annotations of k8s-replicator v1.3.0, and what users are told of them. Users write seven of them, the controller
 * writes five. Their prefix is configurable. Keyferry and the original understand each other's annotations. Pure.
 */
import type { RuleEvent } from '../../copy/engine/controller.ts';
import { about, warning } from '../../copy/engine/life/warnings.ts';
import { because, type Cause, userCause } from '../../copy/model/cause.ts';
import { isMarkedElsewhere, lengthProblem, PLACE_ANNOTATION } from '../../copy/model/observed.ts';
import { REASONS } from '../../copy/model/reasons.ts';
import { parseBool } from '../../runtime/text/go-bool.ts';
import type { PatternCache } from '../../runtime/text/name-patterns.ts';
import { isWithinEdits } from '../../runtime/text/texts.ts';
import { illFormed, type Place, shown } from '../common/annotated/values.ts';
import { REPLICATION_NAMES } from '../common/excluded-metadata.ts';
import type { Served, There } from '../common/namespaces/selection.ts';

export type Annotations = Readonly<Record<string, string>>;

export interface AnnotationNames extends Readonly<Record<keyof typeof REPLICATION_NAMES, string>> {
  /** The prefix with its slash; '' for names without a prefix. */
  readonly prefix: string;
}

export interface RuleSettings {
  readonly names: AnnotationNames;
  readonly allowAll: boolean;
  readonly ignoreUnknown: boolean;
  /** Labels of new objects. */
  readonly createWithLabels: Readonly<Record<string, string>>;
  readonly patterns: PatternCache;
}

/** @param prefix with or without the slash; '' for names without a prefix */
export function annotationNames(prefix: string): AnnotationNames {
  const start = prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`;
  const names = Object.entries(REPLICATION_NAMES).map(([key, name]) => [key, `${start}${name}`] as const);
  return { ...(Object.fromEntries(names) as Record<keyof typeof REPLICATION_NAMES, string>), prefix: start };
}

/** The annotations that users write. */
function userNames(names: AnnotationNames): readonly string[] {
  const { from, to, toNamespaces, once, onceVersion, allowed, allowedNamespaces } = names;
  return [from, to, toNamespaces, once, onceVersion, allowed, allowedNamespaces];
}

/** Annotations with the prefix and an unknown name. If the prefix is empty: none, because any name would be unknown. */
export function unknownAnnotations(names: AnnotationNames, annotations: Annotations): string[] {
  const own = names.prefix === '' ? [] : Object.keys(annotations).filter((key) => key.startsWith(names.prefix));
  return own.filter((key) => !Object.values(names).includes(key) && key !== PLACE_ANNOTATION);
}

/** Whether an annotation has the replicator's prefix or, if the prefix is empty, one of the replicator's names. */
export function isReplicatorAnnotation(names: AnnotationNames, annotation: string): boolean {
  if (names.prefix !== '') return annotation.startsWith(names.prefix);
  return annotation !== '' && Object.values(names).includes(annotation);
}

/** Whether the object is a rule. An unknown annotation counts, too: it may be a misspelled `replicate-to`. */
export function isRule({ names, ignoreUnknown }: RuleSettings, annotations: Annotations): boolean {
  if (names.from in annotations || names.to in annotations || names.toNamespaces in annotations) return true;
  return !ignoreUnknown && unknownAnnotations(names, annotations).length > 0;
}

/** A text that changes when the claims of the object may change. Changes of its bookkeeping do not change the text. */
export function ruleText({ names, ignoreUnknown }: RuleSettings, annotations: Annotations): string {
  const parts = [...userNames(names), names.by, PLACE_ANNOTATION].map((name) => annotations[name] ?? null);
  return JSON.stringify([parts, ignoreUnknown ? [] : unknownAnnotations(names, annotations).sort()]);
}

/** The source in the mark of the copy at `home`; `undefined`: no mark is valid, or the mark is for another place. */
export function pushedBy(names: AnnotationNames, home: Place, annotations: Annotations): Place | undefined {
  const mark = annotations[names.by];
  if (isMarkedElsewhere(annotations, home)) return undefined;
  if (mark === undefined || mark === `${home.namespace}/${home.name}`) return undefined;
  const [namespace = '', name = '', ...more] = mark.split('/');
  return isPathName(namespace) && isPathName(name) && more.length === 0 ? { namespace, name } : undefined;
}

/** The refusal of an object with too long annotations; `undefined`: it has none. */
export function tooLongOn({ names }: RuleSettings, where: string, annotations: Annotations): Cause | undefined {
  for (const name of [...userNames(names), names.inherited]) {
    const problem = lengthProblem(annotations[name] ?? '');
    if (problem === undefined) continue;
    const { reason, message } = illFormed(name, undefined, problem);
    return userCause(reason, `${where}: ${message}`);
  }
  return undefined;
}

/** The refusal of an object with unknown or too long annotations; `undefined`: it has neither. */
export function unknownOn(settings: RuleSettings, where: string, annotations: Annotations): Cause | undefined {
  const { names, ignoreUnknown } = settings;
  const tooLong = tooLongOn(settings, where, annotations);
  const found = tooLong !== undefined || ignoreUnknown ? [] : unknownAnnotations(names, annotations);
  if (found.length === 0) return tooLong;
  const named = found.slice(0, 5).map((key) => {
    const meant = userNames(names).find((name) => isWithinEdits(key, name, 1));
    return meant === undefined ? shown(key) : `${shown(key)} (did you mean ${shown(meant)}?)`;
  });
  return because(
    'UnknownAnnotation',
    `${where} has ${named.length === 1 ? 'the unknown annotation' : 'unknown annotations:'} ${named.join(', ')}, so nothing is copied or deleted`,
  );
}
/** @returns `false` if the annotation is absent; a refusal if its value is no boolean */
export function readBool(annotations: Annotations, name: string): boolean | Cause {
  const text = annotations[name];
  if (text === undefined) return false;
  try {
    return parseBool(text);
  } catch {
    return illFormed(name, text, 'must be true or false');
  }
}

const NAME = /^[0-9a-z.-]+$/;

/** Whether an item of a list is a name, not a pattern. `team.` is a name: as in the original, names may have dots. */
export function isName(text: string): boolean {
  return NAME.test(text);
}

/** Whether a name can stand in the path of a request. `.` and `..` cannot: they would change the path. */
export function isPathName(text: string): boolean {
  return isName(text) && text !== '.' && text !== '..';
}

/** Splits a list as the original does: without trimming items. Empty items are ignored. */
export function listItems(text: string): string[] {
  return text.split(',').filter((item) => item !== '');
}

/** The source that `replicate-from` names, as `<namespace>/<name>`; or the refusal of an invalid value. */
export function sourcePath(names: AnnotationNames, home: Place, value: string): string | Cause {
  const path = value.includes('/') ? value : `${home.namespace}/${value}`;
  const [namespace = '', name = '', ...more] = path.split('/');
  if (!isPathName(namespace) || !isPathName(name) || more.length > 0) {
    return illFormed(names.from, value, 'must be <namespace>/<name> or <name>');
  }
  if (path === `${home.namespace}/${home.name}`) return illFormed(names.from, value, 'refers to the object itself');
  return path;
}

/**
 * The events about named namespaces that do not exist or are not served.
 * @param served the only namespaces that may contain copies; `undefined`: all
 */
export function namespaceWarnings(names: readonly string[], there: There, served: Served | undefined): RuleEvent[] {
  const others = names.filter((namespace) => served?.has(namespace) === false);
  const missing = names.filter((namespace) => !there.has(namespace) && !others.includes(namespace));
  const notServed = `not among the namespaces ${served?.which}`;
  const noNamespace = about(missing, REASONS.NoNamespace.says);
  return [
    ...(others.length === 0 ? [] : [warning({ reason: 'NotServed', message: about(others, notServed) })]),
    ...(missing.length === 0 ? [] : [{ type: 'Normal', reason: 'NoNamespace', message: noNamespace } as const]),
  ];
}
