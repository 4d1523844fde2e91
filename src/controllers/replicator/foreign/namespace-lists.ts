/**
 * Lists of namespaces of other copiers as lists of the replicator. All of them split at commas. The others trim the items, and every item
 * is a regular expression; in the replicator an item of letters, digits, dots and dashes is a name. Pure.
 */
import { PatternCache } from '../../common/namespaces/namespace-patterns.ts';
import { isName } from '../rules/annotations.ts';

/** Every namespace. */
export const EVERYWHERE = '.*';

export interface NamespaceList {
  /** As the replicator reads them. */
  readonly items: readonly string[];
  /** Items that the replicator would refuse, with the reason. */
  readonly invalid: readonly string[];
}

const patterns = new PatternCache('full');

/** Reads the list of another copier. An item that is a name only because of its dots stays a regular expression. */
export function namespaceList(text: string): NamespaceList {
  const items: string[] = [];
  const invalid: string[] = [];
  for (const part of text.split(',')) {
    const item = part.trim();
    if (item === '') continue;
    const own = isName(item) && item.includes('.') ? `(?:${item})` : item;
    const pattern = patterns.get(own);
    if ('error' in pattern) invalid.push(`"${item}" is not a valid RE2 expression: ${pattern.error}`);
    else if (!items.includes(own)) items.push(own);
  }
  return { items, invalid };
}

/** Whether a namespace is in a list of the replicator. */
export function isListed(items: readonly string[], namespace: string): boolean {
  return items.some((item) => {
    if (isName(item)) return item === namespace;
    const pattern = patterns.get(item);
    return 'matchesName' in pattern && pattern.matchesName(namespace);
  });
}

/**
 * The namespaces that are in both lists, as one list.
 * @returns `undefined` if no list can say it: two different regular expressions have no common one
 */
export function intersection(first: readonly string[], second: readonly string[]): readonly string[] | undefined {
  if (first.includes(EVERYWHERE)) return second;
  if (second.includes(EVERYWHERE)) return first;
  const common = new Set(first.filter((item) => second.includes(item)));
  for (const [one, other] of [
    [first, second],
    [second, first],
  ] as const) {
    for (const item of one) if (isName(item) && isListed(other, item)) common.add(item);
  }
  const expressions = (list: readonly string[]): string[] => list.filter((item) => !isName(item) && !common.has(item));
  if (expressions(first).length > 0 && expressions(second).length > 0) return undefined;
  return [...common];
}
