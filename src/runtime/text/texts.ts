/** Small functions that make texts. */

/** A text of at most `max` characters; the last one is `…` if something is missing. Half a character at the end is replaced. */
export function clipped(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max - 1).toWellFormed()}…`;
}

/** The first `most` names, and how many there are besides: `a, b and 3 more`. Users choose the number of names, so a message cannot have all. */
export function someOf(names: readonly string[], most: number, separator = ', '): string {
  const rest = names.length - most;
  const named = names.slice(0, most).join(separator);
  return rest > 0 ? `${named} and ${rest} more` : named;
}

/**
 * Joins texts to one that is kept. V8 makes a template literal a tree of its parts, and keeps a part of the tree with the text: 32 bytes more for
 * each of the strings that are kept for every object.
 */
export function flatText(...parts: readonly (string | number | boolean)[]): string {
  return parts.join('');
}

/** A time as Kubernetes writes it, and Go's RFC 3339 in UTC: whole seconds. */
export function rfc3339(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Whether one text is the other but for so many letters at most, which are missing, too many or wrong: for "did you mean". */
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
