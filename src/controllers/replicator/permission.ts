/** Whether a source lets itself be pulled by `replicate-from`, and what of that a copy hands on to its own copies. */
import { LEAST_PATTERN_SIZE, MAX_PATTERN_SIZE, type PatternCache } from '../common/namespace-patterns.ts';
import {
  type AnnotationNames,
  type Annotations,
  illFormed,
  isName,
  listItems,
  readBool,
  type Refusal,
} from './annotations.ts';

/** A Kubernetes object's place; `annotations` are the source's. */
export interface Place {
  readonly namespace: string;
  readonly name: string;
}

export interface PermissionRules {
  readonly names: AnnotationNames;
  readonly allowAll: boolean;
  readonly patterns: PatternCache;
}

/** `denied`: the target must not hold the data. `cancelled`: nothing can be said, so nothing is done. */
export type Verdict =
  | { readonly verdict: 'allowed' }
  | { readonly verdict: 'denied' | 'cancelled'; readonly refusal: Refusal };

const ALLOWED: Verdict = { verdict: 'allowed' };
/** Inherited permissions: for everywhere, and for nowhere. */
export const EVERYWHERE = '.*';
export const NOWHERE = '-';

/** Whether `target` may hold the data of `source`. */
export function permission(rules: PermissionRules, target: Place, source: Place, annotations: Annotations): Verdict {
  const { names, allowAll } = rules;
  const where = `source ${source.namespace}/${source.name}`;
  const list = annotations[names.allowedNamespaces];
  if (!allowAll && list === undefined && !(names.allowed in annotations)) {
    return denied(`${where} has neither annotation ${names.allowed} nor ${names.allowedNamespaces}`);
  }
  if (names.allowed in annotations) {
    const allowed = readBool(annotations, names.allowed);
    if (typeof allowed === 'object') return cancelled(where, allowed);
    if (!allowed) return denied(`${where} forbids it by annotation ${names.allowed}`);
  }
  if (list !== undefined) {
    const matches = matchesList(rules, names.allowedNamespaces, list, target.namespace);
    if (typeof matches === 'object') return cancelled(where, matches);
    if (!matches) return denied(`annotation ${names.allowedNamespaces} of ${where} has no ${target.namespace}`);
  }
  return names.from in annotations ? inheritedPermission(rules, target, where, annotations) : ALLOWED;
}

/** The source is a copy itself: the source of that has a word to say too. */
function inheritedPermission(rules: PermissionRules, target: Place, where: string, annotations: Annotations): Verdict {
  const { names } = rules;
  const inherited = annotations[names.inherited];
  if (inherited === undefined)
    return denied(`${where} is replicated itself, and annotation ${names.inherited} is missing`);
  const matches = matchesList(rules, names.inherited, inherited, target.namespace);
  if (typeof matches === 'object') return cancelled(where, matches);
  if (!matches) return denied(`annotation ${names.inherited} of ${where} has no ${target.namespace}`);
  if (annotations[names.origin] === `${target.namespace}/${target.name}`) {
    const message = `${where} is replicated from ${target.namespace}/${target.name} (annotation ${names.origin})`;
    return { verdict: 'cancelled', refusal: { reason: 'Loop', message } };
  }
  return ALLOWED;
}

/** Names that are tried on patterns at most for one intersection: 50 of the one on 50 of the other. */
const MAX_TRIALS = 2500;

/** Items are tried in order, so that a bad pattern behind one that matches does no harm. */
function matchesList(
  { patterns }: PermissionRules,
  annotation: string,
  list: string,
  namespace: string,
): boolean | Refusal {
  if (list === EVERYWHERE) return true;
  let size = 0;
  for (const item of listItems(list)) {
    if (isName(item)) {
      if (item === namespace) return true;
      continue;
    }
    const pattern = patterns.get(item);
    if ('error' in pattern) return illFormed(annotation, item, `not a pattern: ${pattern.error}`);
    size += Math.max(pattern.size, LEAST_PATTERN_SIZE);
    if (size > MAX_PATTERN_SIZE) return illFormed(annotation, list, 'its patterns are too large together');
    if (pattern.matches(namespace)) return true;
  }
  return false;
}

/** What a copy of this source may hand on: `replicated-from-allowed`. */
export function inheritance({ names, patterns }: PermissionRules, annotations: Annotations): string {
  const own = annotations[names.allowedNamespaces];
  if (!(names.from in annotations)) return own ?? EVERYWHERE;
  const inherited = annotations[names.inherited];
  if (inherited === undefined) return NOWHERE;
  if (own === undefined || own === EVERYWHERE) return inherited;
  if (inherited === EVERYWHERE) return own;
  return intersection(patterns, listItems(own), listItems(inherited));
}

/**
 * Items of both lists, and names of the one that match a pattern of the other. Two patterns have nothing in common. Of lists
 * that are so long that it would take too long to try, only the items of both: a copy may then hand on less, never more.
 */
function intersection(patterns: PatternCache, left: readonly string[], right: readonly string[]): string {
  const inRight = new Set(right);
  const both = new Set(left.filter((item) => inRight.has(item)));
  for (const [items, others] of [
    [left, right],
    [right, left],
  ] as const) {
    const names = new Set(items.filter((item) => isName(item) && !both.has(item)));
    const tried = new Set(others.filter((item) => !isName(item)));
    if (names.size * tried.size > MAX_TRIALS) continue;
    for (const name of names) if (some(tried, (other) => matchesPattern(patterns, other, name))) both.add(name);
  }
  return both.size === 0 ? NOWHERE : [...both].join(',');
}

function some<T>(items: Iterable<T>, condition: (item: T) => boolean): boolean {
  for (const item of items) if (condition(item)) return true;
  return false;
}

function matchesPattern(patterns: PatternCache, item: string, namespace: string): boolean {
  const pattern = patterns.get(item);
  if (!('matches' in pattern)) return false;
  // A name of a list, which need not be a namespace's: nothing would ever make it forgotten.
  return pattern.matchesName(namespace);
}

function denied(message: string): Verdict {
  return { verdict: 'denied', refusal: { reason: 'Denied', message } };
}

function cancelled(where: string, { reason, message }: Refusal): Verdict {
  return { verdict: 'cancelled', refusal: { reason, message: `${where}: ${message}` } };
}
