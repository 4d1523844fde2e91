/** Matches lists of namespaces in annotations. An item is a name, or a pattern that must match a whole name. Pure. */
import type { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { isName } from './annotations.ts';

/** The pattern that matches every namespace. */
export const EVERYWHERE = '.*';

/** Whether a namespace is in the list. An invalid pattern matches nothing. */
export function isListed(patterns: PatternCache, items: readonly string[], namespace: string): boolean {
  return items.some((item) => {
    if (isName(item)) return item === namespace;
    const pattern = patterns.get(item);
    return !('error' in pattern) && pattern.matchesWhole(namespace);
  });
}

/**
 * The namespaces that both lists allow, as a list: items of both, and names in one that match a pattern in the other.
 * @param maxTrials maximum number of pairs of name and pattern to match; with more pairs, only items of both count
 */
export function intersection(
  patterns: PatternCache,
  left: readonly string[],
  right: readonly string[],
  maxTrials: number,
): readonly string[] {
  const inRight = new Set(right);
  const both = new Set(left.filter((item) => inRight.has(item)));
  for (const [items, others] of [
    [left, right],
    [right, left],
  ] as const) {
    const names = new Set(items.filter((item) => isName(item) && !both.has(item)));
    const tried = [...new Set(others.filter((item) => !isName(item)))];
    if (names.size * tried.length > maxTrials) continue;
    for (const name of names) if (isListed(patterns, tried, name)) both.add(name);
  }
  return [...both];
}
