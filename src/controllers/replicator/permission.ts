/** Decides whether `replicate-from` may copy a source, and which namespaces may then copy from the copy. Pure. */
import { because, type Cause, userCause } from '../../copy/model/cause.ts';
import { type PatternCache, RulePatterns } from '../../runtime/text/name-patterns.ts';
import { illFormed, type Place } from '../common/annotated/values.ts';
import { type Annotations, isName, listItems, readBool, type RuleSettings } from './words.ts';

/**
 * - `denied`: the target must not have the source's data.
 * - `cancelled`: an annotation is invalid, so the target stays as it is.
 * - `loop`: the lists allow the target, but the source is itself a copy of the target. The target stays as it is.
 */
export interface Denial {
  readonly result: 'denied' | 'cancelled' | 'loop';
  readonly refusal: Cause;
}

/** The pattern that matches every namespace. */
const EVERYWHERE = '.*';
/** The value of `replicated-from-allowed` that allows no namespace. */
const NOWHERE = '-';

/** Why `target` must not have the data of `source` (its path); `undefined`: it may have it. @param annotations of the source */
export function permission(
  rules: RuleSettings,
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
  rules: RuleSettings,
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
  { patterns: cache }: RuleSettings,
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
export function inheritance({ names, patterns }: RuleSettings, annotations: Annotations): string {
  const own = annotations[names.allowedNamespaces];
  if (!(names.from in annotations)) return own ?? EVERYWHERE;
  const inherited = annotations[names.inherited];
  if (inherited === undefined) return NOWHERE;
  if (own === undefined || own === EVERYWHERE) return inherited;
  if (inherited === EVERYWHERE) return own;
  const items = intersection(patterns, listItems(own), listItems(inherited));
  return items.length === 0 ? NOWHERE : items.join(',');
}

/** Whether a namespace is in the list. An invalid pattern matches nothing. */
function isListed(patterns: PatternCache, items: readonly string[], namespace: string): boolean {
  return items.some((item) => {
    if (isName(item)) return item === namespace;
    const pattern = patterns.get(item);
    return !('error' in pattern) && pattern.matchesWhole(namespace);
  });
}

/**
 * The namespaces that both lists allow, as a list: items of both, and names in one that match a pattern in the other.
 * With more than `MAX_TRIALS` pairs to match, only items of both count.
 */
function intersection(patterns: PatternCache, left: readonly string[], right: readonly string[]): readonly string[] {
  const inRight = new Set(right);
  const both = new Set(left.filter((item) => inRight.has(item)));
  for (const [items, others] of [
    [left, right],
    [right, left],
  ] as const) {
    const names = new Set(items.filter((item) => isName(item) && !both.has(item)));
    const tried = [...new Set(others.filter((item) => !isName(item)))];
    if (names.size * tried.length > MAX_TRIALS) continue;
    for (const name of names) if (isListed(patterns, tried, name)) both.add(name);
  }
  return [...both];
}

function denied(message: string): Denial {
  return { result: 'denied', refusal: because('Denied', message) };
}

function cancelled(where: string, { reason, message }: Cause): Denial {
  return { result: 'cancelled', refusal: userCause(reason, `${where}: ${message}`) };
}
