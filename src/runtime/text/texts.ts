/** Small functions for texts: to cut, list, join and compare them. */

/** The text, cut to `max` UTF-16 units with a final `…`. Half a surrogate pair at the cut is replaced. */
export function clipped(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max - 1).toWellFormed()}…`;
}

/** The first names and the number of the others: `a, b and 3 more`. A message cannot have all names of a long list. */
export function someOf(names: readonly string[], most: number, separator = ', '): string {
  const rest = names.length - most;
  const named = names.slice(0, most).join(separator);
  return rest > 0 ? `${named} and ${rest} more` : named;
}

/** A text with a capital at its begin and a stop at its end. */
export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}

/** A time as Kubernetes writes it: RFC 3339 in UTC, with whole seconds. @param ms since 1970 */
export function rfc3339(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Whether `a` becomes `b` if at most `edits` letters are added, removed or changed: for "did you mean b?". */
export function isWithinEdits(a: string, b: string, edits: number): boolean {
  let same = 0;
  while (same < a.length && a[same] === b[same]) same++;
  const [left, right] = [a.slice(same), b.slice(same)];
  if (left === right || edits === 0) return left === right;
  const rests = [
    [left.slice(1), right],
    [left, right.slice(1)],
    [left.slice(1), right.slice(1)],
  ] as const;
  return rests.some(([one, other]) => isWithinEdits(one, other, edits - 1));
}
