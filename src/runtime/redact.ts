/**
 * Takes values out of words that somebody else has said of them, before these go into a log, an event or a status: servers quote what
 * they were sent, whole or cut short, as text or encoded.
 *
 * Taken out is a value in each of its forms (`formsOf`), any line or quoted string of it that is long enough to tell something, and
 * whatever else of the text is a longer piece of it.
 */

export const REDACTED = '[redacted]';

/** Two letters are in every sentence: values shorter than this are only taken out where they stand alone. */
const SHORT = 4;
/** Shortest line or quoted string of a value that is taken out by itself: shorter ones are in ordinary words. */
const SHORTEST_PART = 8;
/** Shortest piece of a value that is taken out, wherever it begins and ends. */
const SHORTEST_PIECE = 16;
/** Half of the above, so that any such piece holds one that begins at a multiple of it. */
const STEP = SHORTEST_PIECE / 2;

/** @param secrets the values; of those that are no text, their base64 */
export function redact(text: string, secrets: readonly string[]): string {
  const forms = [...new Set(secrets.flatMap((secret) => [secret, ...partsOf(secret)]).flatMap(formsOf))];
  let result = withoutPieces(text, forms);
  for (const form of forms.toSorted((a, b) => b.length - a.length)) {
    result =
      form.length >= SHORT ? result.replaceAll(form, REDACTED) : result.replace(wholeWord(form), `$1${REDACTED}`);
  }
  return result;
}

function partsOf(secret: string): readonly string[] {
  return secret
    .split(/[\r\n"]+/u)
    .map((part) => part.trim())
    .filter((part) => part.length >= SHORTEST_PART);
}

/** A value as it may come back: as it is, as in JSON or Go's `%q`, in base64, in a URL. */
function formsOf(secret: string): readonly string[] {
  if (secret === '') return [];
  const escaped = JSON.stringify(secret).slice(1, -1);
  const base64 = Buffer.from(secret).toString('base64');
  return [secret, secret.trim(), escaped, base64, encodeURIComponent(secret.toWellFormed())].filter((f) => f !== '');
}

function wholeWord(form: string): RegExp {
  const literal = form.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
  return new RegExp(`(^|[^A-Za-z0-9])${literal}(?![A-Za-z0-9])`, 'g');
}

/** Without whatever the text has in common with a form over a length that is no chance. The text is short, the forms need not be. */
function withoutPieces(text: string, forms: readonly string[]): string {
  if (text.length < SHORTEST_PIECE) return text;
  const places = new Map<string, number[]>();
  for (let at = 0; at + STEP <= text.length; at += 1) {
    const gram = text.slice(at, at + STEP);
    const known = places.get(gram);
    if (known === undefined) places.set(gram, [at]);
    else known.push(at);
  }
  const taken = new Uint8Array(text.length);
  for (const form of forms) {
    if (form.length < SHORTEST_PIECE) continue;
    for (let at = 0; at + STEP <= form.length; at += STEP) {
      for (const place of places.get(form.slice(at, at + STEP)) ?? []) {
        if (taken[place] === 1 && taken[place + STEP - 1] === 1) continue;
        let [from, to] = [place, place + STEP];
        const shift = at - place;
        while (from > 0 && from + shift > 0 && text[from - 1] === form[from + shift - 1]) from -= 1;
        while (to < text.length && text[to] === form[to + shift]) to += 1;
        if (to - from >= SHORTEST_PIECE) taken.fill(1, from, to);
      }
    }
  }
  let result = '';
  for (let at = 0; at < text.length; at += 1) {
    if (taken[at] !== 1) result += text[at];
    else if (taken[at - 1] !== 1) result += REDACTED;
  }
  return result;
}
