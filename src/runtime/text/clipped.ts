/** A text of at most `max` characters; the last one is `…` if something is missing. Half a character at the end is replaced. */
export function clipped(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max - 1).toWellFormed()}…`;
}
