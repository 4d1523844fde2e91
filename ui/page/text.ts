/** Texts that the page shows: made safe for the eye, counted, and dated. Pure. */

/** Characters that are not seen or change the order of others: control and format characters, and line separators. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The text with its unseen characters spelled out: `‹U+202E›`. */
export function visible(text: string): string {
  return text.toWellFormed().replace(UNSEEN, (char) => {
    return char === '\n' ? char : `‹U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}›`;
  });
}

/** `1 copy`, `2,000 copies` */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString('en')} ${number === 1 ? one : many}`;
}

/** The first names and the number of the others. */
export function some(names: readonly string[], most: number): string {
  const rest = names.length - most;
  return rest > 0 ? `${names.slice(0, most).join(', ')} and ${rest.toLocaleString('en')} more` : names.join(', ');
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

/** The first letter as a capital. */
export function sentence(text: string): string {
  const full = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(full) ? full : `${full}.`;
}
