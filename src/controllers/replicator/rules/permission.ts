/** Decides whether `replicate-from` may copy a source, and which namespaces may then copy from the copy. Pure. */
import { because, userCause } from '../../../copy/model/cause.ts';
import { type PatternCache, RulePatterns } from '../../../runtime/text/name-patterns.ts';
import type { Place } from '../../common/annotated/objects.ts';
import {
  type AnnotationNames,
  type Annotations,
  illFormed,
  isName,
  listItems,
  readBool,
  type Refusal,
} from './annotations.ts';
import { EVERYWHERE, intersection } from './namespace-lists.ts';

export interface PermissionRules {
  readonly names: AnnotationNames;
  readonly allowAll: boolean;
  readonly patterns: PatternCache;
}

/**
 * - `denied`: the target must not have the source's data.
 * - `cancelled`: an annotation is invalid, so the target stays as it is.
 * - `loop`: the lists allow the target, but the source is itself a copy of the target. The target stays as it is.
 */
export interface Denial {
  readonly result: 'denied' | 'cancelled' | 'loop';
  readonly refusal: Refusal;
}

/** The value of `replicated-from-allowed` that allows no namespace. */
const NOWHERE = '-';

/** Why `target` must not have the data of `source` (its path); `undefined`: it may have it. @param annotations of the source */
export function permission(
  rules: PermissionRules,
  target: Place,
  source: string,
  annotations: Annotations,
): Denial | undefined {
  const { names, allowAll } = rules;
  const where = `source ${source}`;
  const list = annotations[names.allowedNamespaces];
  if (!allowAll && list === undefined && !(names.allowed in annotations)) {
    return denied(`${where} has neither annotation ${names.allowed} nor ${names.allowedNamespaces}`);
  }
  if (names.allowed in annotations) {
    const allowed = readBool(annotations, names.allowed);
    if (typeof allowed === 'object') return cancelled(where, allowed);
    if (!allowed) return denied(`annotation ${names.allowed} of ${where} forbids replication`);
  }
  if (list !== undefined) {
    const listed = listedPermission(rules, names.allowedNamespaces, list, target, where);
    if (listed !== undefined) return listed;
  }
  return names.from in annotations ? inheritedPermission(rules, target, where, annotations) : undefined;
}

/** For a source that is itself a copy: the object that it was copied from must allow the target, too. */
function inheritedPermission(
  rules: PermissionRules,
  target: Place,
  where: string,
  annotations: Annotations,
): Denial | undefined {
  const { names } = rules;
  const inherited = annotations[names.inherited];
  if (inherited === undefined) return denied(`${where} is itself a copy and has no annotation ${names.inherited}`);
  const listed = listedPermission(rules, names.inherited, inherited, target, where);
  if (listed !== undefined) return listed;
  if (annotations[names.origin] === `${target.namespace}/${target.name}`) {
    const message = `${where} is replicated from ${target.namespace}/${target.name} (annotation ${names.origin})`;
    return { result: 'loop', refusal: because('Loop', message) };
  }
  return undefined;
}

/** Looks for the target's namespace in a list, item by item. An invalid pattern after the first match has no effect. */
function listedPermission(
  { patterns: cache }: PermissionRules,
  annotation: string,
  list: string,
  { namespace }: Place,
  where: string,
): Denial | undefined {
  if (list === EVERYWHERE) return undefined;
  const patterns = new RulePatterns(cache);
  for (const item of listItems(list)) {
    if (item === namespace) return undefined;
    if (isName(item)) continue;
    const pattern = patterns.add(item);
    if ('error' in pattern) return cancelled(where, illFormed(annotation, item, `invalid pattern: ${pattern.error}`));
    if (pattern.matches(namespace)) return undefined;
  }
  return denied(`annotation ${annotation} of ${where} does not include namespace ${namespace}`);
}

/** Maximum number of pairs of name and pattern to match for one intersection: for example 50 names and 50 patterns. */
const MAX_TRIALS = 2500;

/**
 * The value of `replicated-from-allowed` on a copy: the namespaces that may copy from the copy. If no list is exactly
 * the intersection of the source's two lists, the value allows fewer namespaces, never more.
 * @param annotations of the source
 */
export function inheritance({ names, patterns }: PermissionRules, annotations: Annotations): string {
  const own = annotations[names.allowedNamespaces];
  if (!(names.from in annotations)) return own ?? EVERYWHERE;
  const inherited = annotations[names.inherited];
  if (inherited === undefined) return NOWHERE;
  if (own === undefined || own === EVERYWHERE) return inherited;
  if (inherited === EVERYWHERE) return own;
  const items = intersection(patterns, listItems(own), listItems(inherited), MAX_TRIALS);
  return items.length === 0 ? NOWHERE : items.join(',');
}

function denied(message: string): Denial {
  return { result: 'denied', refusal: because('Denied', message) };
}

function cancelled(where: string, { reason, message }: Refusal): Denial {
  return { result: 'cancelled', refusal: userCause(reason, `${where}: ${message}`) };
}
