/** Texts that the page shows: made safe for the eye, counted, and dated. Pure. */

/** Characters that are not seen or change the order of others: control and format characters, and line separators. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The text with its unseen characters spelled out: `‹U+202E›`. */
export function visible(text: string): string {
  const spelled = (char: string): string =>
    char === '\n' ? char : `‹U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}›`;
  return text.toWellFormed().replace(UNSEEN, spelled);
}

const FORMAT = new Intl.NumberFormat('en');

export const number = (value: number): string => FORMAT.format(value);

/** `1 rule`, `2,000 rules` */
export function count(value: number, one: string, many = `${one}s`): string {
  return `${number(value)} ${value === 1 ? one : many}`;
}

export const copies = (value: number): string => count(value, 'copy', 'copies');

/** `Conflict: the object belongs to …` */
export function why({ reason, message }: { readonly reason: string; readonly message: string }): string {
  return [reason, message].filter((text) => text !== '').join(': ');
}

/** `12 min`, `3 h`, `6 days`. @param iso RFC 3339. @param now ms */
export function age(iso: string, now: number): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(iso)) / 1000));
  if (Number.isNaN(seconds)) return 'an unknown time';
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}
