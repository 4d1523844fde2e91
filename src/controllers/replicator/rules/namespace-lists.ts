/** The lists of namespaces in annotations of the replicator: names, and patterns of whole names. Pure. */
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
 * The namespaces in both lists, as a list: items of both, and names in one list that match a pattern in the other.
 * @param maxTrials maximum number of such matches to try; if it is exceeded, only items of both are returned
 * @returns `isWhole`: the list is complete. Two different patterns have no common pattern
 */
export function intersection(
  patterns: PatternCache,
  left: readonly string[],
  right: readonly string[],
  maxTrials = Infinity,
): { readonly items: readonly string[]; readonly isWhole: boolean } {
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
  const hasOthers = (list: readonly string[]): boolean => list.some((item) => !isName(item) && !both.has(item));
  return { items: [...both], isWhole: !(hasOthers(left) && hasOthers(right)) };
}
