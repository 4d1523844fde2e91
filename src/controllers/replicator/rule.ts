/** What one object's annotations ask for: the replicator's rules. Pure. */
import type { Claim } from '../../copy/model/claim.ts';
import { isMarkedElsewhere, PLACE_ANNOTATION } from '../../copy/plan/marks.ts';
import { LEAST_PATTERN_SIZE, MAX_PATTERN_SIZE } from '../common/namespace-patterns.ts';
import {
  type AnnotationNames,
  type Annotations,
  illFormed,
  isName,
  isPathName,
  listItems,
  readBool,
  type Refusal,
  sourcePath,
  tooLongOn,
  unknown,
  unknownAnnotations,
  userNames,
} from './annotations.ts';
import type { PermissionRules, Place } from './permission.ts';
import { readTargets, type Targets } from './targets.ts';

export interface RuleSettings extends PermissionRules {
  readonly ignoreUnknown: boolean;
  /** Labels of created objects. */
  readonly createWithLabels: Readonly<Record<string, string>>;
}

/**
 * - `broken`: something in it is ill-formed or unknown. Nothing is done, and above all nothing is taken away.
 * - `push`: copies to make. With `from` they are filled from there, and the object itself stands for nothing but its type.
 * - `pull`: the object is to be filled from `from`.
 */
export type ReplicationRule =
  | { readonly kind: 'broken'; readonly refusal: Refusal }
  | { readonly kind: 'push'; readonly targets: Targets; readonly from: string | undefined }
  | { readonly kind: 'pull'; readonly from: string };

/** `undefined`: the object is no rule. */
export function readRule(settings: RuleSettings, home: Place, annotations: Annotations): ReplicationRule | undefined {
  const { names } = settings;
  if (!isRule(settings, annotations)) return undefined;
  const refusal = unknownOn(settings, 'the object', annotations);
  if (refusal !== undefined) return { kind: 'broken', refusal };
  // What was pushed does not push on.
  const targets = isPushed(names, home, annotations)
    ? undefined
    : readTargets(names, settings.patterns, home, annotations);
  if (targets !== undefined && 'reason' in targets) return { kind: 'broken', refusal: targets };
  const value = annotations[names.from];
  const from = value === undefined ? undefined : sourcePath(names, home, value);
  if (typeof from === 'object') return { kind: 'broken', refusal: from };
  if (targets !== undefined) {
    const broken = passedOnProblem(settings, annotations);
    return broken === undefined ? { kind: 'push', targets, from } : { kind: 'broken', refusal: broken };
  }
  return from === undefined ? undefined : { kind: 'pull', from };
}

/** Whether the object asks for something, or might if its unknown annotations were known. */
export function isRule(settings: RuleSettings, annotations: Annotations): boolean {
  const { names } = settings;
  if (names.from in annotations || names.to in annotations || names.toNamespaces in annotations) return true;
  return !settings.ignoreUnknown && unknownAnnotations(names, annotations).length > 0;
}

/** Why nothing may be done with an object, if it has annotations that nobody knows, or too long to be read. */
export function unknownOn(settings: RuleSettings, where: string, annotations: Annotations): Refusal | undefined {
  const tooLong = tooLongOn(settings.names, annotations);
  if (tooLong !== undefined) return { ...tooLong, message: `${where}: ${tooLong.message}` };
  if (settings.ignoreUnknown) return undefined;
  const found = unknownAnnotations(settings.names, annotations);
  return found.length === 0 ? undefined : unknown(where, found);
}

/** The annotations that a pushed copy takes over must be right, or the copy would be wrong. */
function passedOnProblem({ names, patterns }: RuleSettings, annotations: Annotations): Refusal | undefined {
  for (const name of [names.once, names.allowed]) {
    const value = readBool(annotations, name);
    if (typeof value === 'object') return value;
  }
  let size = 0;
  for (const item of listItems(annotations[names.allowedNamespaces] ?? '')) {
    const pattern = isName(item) ? undefined : patterns.get(item);
    if (pattern === undefined) continue;
    if ('error' in pattern) return illFormed(names.allowedNamespaces, item, `not a pattern: ${pattern.error}`);
    size += Math.max(pattern.size, LEAST_PATTERN_SIZE);
    if (size > MAX_PATTERN_SIZE) return illFormed(names.allowedNamespaces, item, 'the patterns are too large together');
  }
  return undefined;
}

/**
 * The source that made the object at `home`, as `<namespace>/<name>`; `undefined` if its mark says nothing of the kind, or was written
 * for another place.
 */
export function pushedBy(names: AnnotationNames, home: Place, annotations: Annotations): string | undefined {
  const mark = annotations[names.by];
  if (isMarkedElsewhere(annotations, home)) return undefined;
  if (mark === undefined || mark === `${home.namespace}/${home.name}`) return undefined;
  const [namespace = '', name = '', ...more] = mark.split('/');
  return isPathName(namespace) && isPathName(name) && more.length === 0 ? mark : undefined;
}

function isPushed(names: AnnotationNames, home: Place, annotations: Annotations): boolean {
  return pushedBy(names, home, annotations) !== undefined;
}

/** Changes with everything that the claims of an object depend on, and not with its bookkeeping. */
export function ruleVersion(settings: RuleSettings, uid: string, annotations: Annotations): string {
  const { names } = settings;
  const parts = [...userNames(names), names.by, PLACE_ANNOTATION].map((name) => annotations[name] ?? null);
  return JSON.stringify([uid, parts, settings.ignoreUnknown ? [] : unknownAnnotations(names, annotations).sort()]);
}

/** What a claim's owner is called. */
export function ruleTitle(kind: string, { namespace, name }: Place): Claim['owner']['title'] {
  return `${kind} ${namespace}/${name}`;
}
