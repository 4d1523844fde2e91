/** Reads a rule from the annotations of an object. Pure. */
import { userCause } from '../../../copy/model/cause.ts';
import { isMarkedElsewhere, PLACE_ANNOTATION } from '../../../copy/plan/marks.ts';
import { RulePatterns } from '../../common/namespaces/namespace-patterns.ts';
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
  /** Labels for created objects. */
  readonly createWithLabels: Readonly<Record<string, string>>;
}

/**
 * - `broken`: an annotation is invalid or unknown. The copies stay as they are.
 * - `push`: the object has copies. With `from`, they are filled from there, and only the type of the object is copied.
 * - `pull`: the object is filled from `from`.
 */
export type ReplicationRule =
  | { readonly kind: 'broken'; readonly refusal: Refusal }
  | { readonly kind: 'push'; readonly targets: Targets; readonly from: string | undefined }
  | { readonly kind: 'pull'; readonly from: string };

/** @returns `undefined` if the object is not a rule */
export function readRule(settings: RuleSettings, home: Place, annotations: Annotations): ReplicationRule | undefined {
  const { names } = settings;
  if (!isRule(settings, annotations)) return undefined;
  const refusal = unknownOn(settings, 'the object', annotations);
  if (refusal !== undefined) return { kind: 'broken', refusal };
  // A copy has no copies of its own.
  const targets =
    pushedBy(names, home, annotations) === undefined
      ? readTargets(names, settings.patterns, home, annotations)
      : undefined;
  if (targets !== undefined && 'reason' in targets) return { kind: 'broken', refusal: targets };
  const value = annotations[names.from];
  const from = value === undefined ? undefined : sourcePath(names, home, value);
  if (typeof from === 'object') return { kind: 'broken', refusal: from };
  if (targets !== undefined) {
    const broken = inheritedProblem(settings, annotations);
    return broken === undefined ? { kind: 'push', targets, from } : { kind: 'broken', refusal: broken };
  }
  return from === undefined ? undefined : { kind: 'pull', from };
}

/** Whether the object is a rule: it has copies, a source, or an unknown annotation that may be a misspelled one. */
export function isRule(settings: RuleSettings, annotations: Annotations): boolean {
  const { names } = settings;
  if (names.from in annotations || names.to in annotations || names.toNamespaces in annotations) return true;
  return !settings.ignoreUnknown && unknownAnnotations(names, annotations).length > 0;
}

/** The refusal of an object with unknown annotations, or with annotations that are too long. */
export function unknownOn(settings: RuleSettings, where: string, annotations: Annotations): Refusal | undefined {
  const tooLong = tooLongOn(settings.names, annotations);
  if (tooLong !== undefined) return userCause(tooLong.reason, `${where}: ${tooLong.message}`);
  if (settings.ignoreUnknown) return undefined;
  const found = unknownAnnotations(settings.names, annotations);
  return found.length === 0 ? undefined : unknown(where, found);
}

/** The refusal of a source if an annotation that its copies inherit is invalid. */
function inheritedProblem({ names, patterns: cache }: RuleSettings, annotations: Annotations): Refusal | undefined {
  for (const name of [names.once, names.allowed]) {
    const value = readBool(annotations, name);
    if (typeof value === 'object') return value;
  }
  const patterns = new RulePatterns(cache);
  for (const item of listItems(annotations[names.allowedNamespaces] ?? '')) {
    const pattern = isName(item) ? undefined : patterns.add(item);
    if (pattern !== undefined && 'error' in pattern)
      return illFormed(names.allowedNamespaces, item, `invalid pattern: ${pattern.error}`);
  }
  return undefined;
}

/**
 * The source of the copy at `home`; `undefined` if the object has no valid mark, or a mark for another place.
 */
export function pushedBy(names: AnnotationNames, home: Place, annotations: Annotations): Place | undefined {
  const mark = annotations[names.by];
  if (isMarkedElsewhere(annotations, home)) return undefined;
  if (mark === undefined || mark === `${home.namespace}/${home.name}`) return undefined;
  const [namespace = '', name = '', ...more] = mark.split('/');
  return isPathName(namespace) && isPathName(name) && more.length === 0 ? { namespace, name } : undefined;
}

/** Changes whenever the claims of the object may change, and not with its bookkeeping. */
export function ruleVersion(settings: RuleSettings, uid: string, annotations: Annotations): string {
  const { names } = settings;
  const parts = [...userNames(names), names.by, PLACE_ANNOTATION].map((name) => annotations[name] ?? null);
  return JSON.stringify([uid, parts, settings.ignoreUnknown ? [] : unknownAnnotations(names, annotations).sort()]);
}
