/**
 * Removes secret values from server messages, before a message goes into a log, an event or a status. Servers quote
 * requests, whole or cut, as text or encoded. So these are removed: a value in each of its forms (`formsOf`), its lines
 * and quoted strings of at least `SHORTEST_PART` characters, and any piece of at least `SHORTEST_PIECE` characters.
 */

export const REDACTED = '[redacted]';

/** A value with fewer characters may be a part of ordinary words, so it is removed only as a whole word. */
const SHORT = 4;
/** Shortest line or quoted string of a value that is removed alone: a shorter line may be an ordinary word. */
const SHORTEST_PART = 8;
/** Shortest piece of a value that is removed, wherever in the value the piece begins and ends. */
const SHORTEST_PIECE = 16;
/** The end of a message that the server has cut. */
const CUT = /(?:\u2026|\.\.\.)$/;
/** Longest message; a longer one is cut. */
const LONGEST_TEXT = 8192;

/** Removes secrets from a message. @param secrets the secret values; for bytes that are no text, their base64 */
export function redact(words: string, secrets: readonly string[]): string {
  const text = words.length > LONGEST_TEXT ? `${words.slice(0, LONGEST_TEXT)}…` : words;
  const forms = new Set(secrets.flatMap((secret) => [secret, ...partsOf(secret)]).flatMap(formsOf));
  // Each form is searched in the original text: if two values begin alike, removing one must not hide the other.
  const taken = new Uint8Array(text.length);
  for (const form of forms) {
    takeWhole(text, form, taken);
    takeBeginning(text, form, taken);
  }
  if (text.length >= SHORTEST_PIECE) markCommonPieces(text, forms, SHORTEST_PIECE, taken);
  return withoutTaken(text, taken);
}

function partsOf(secret: string): readonly string[] {
  return secret
    .split(/[\r\n"]+/u)
    .map((part) => part.trim())
    .filter((part) => part.length >= SHORTEST_PART);
}

/** The forms that a value may have in a message: unchanged, escaped (JSON, Go's `%q`), in base64, in a URL. */
function formsOf(secret: string): readonly string[] {
  if (secret === '') return [];
  const escaped = JSON.stringify(secret).slice(1, -1);
  const base64 = Buffer.from(secret).toString('base64');
  return [secret, secret.trim(), escaped, base64, encodeURIComponent(secret.toWellFormed())].filter((f) => f !== '');
}

function takeWhole(text: string, form: string, taken: Uint8Array): void {
  if (form.length < SHORT) {
    for (const { 0: found, index } of text.matchAll(wholeWord(form))) taken.fill(1, index, index + found.length);
    return;
  }
  let end = 0;
  for (let at = text.indexOf(form); at >= 0; at = text.indexOf(form, at + 1)) {
    taken.fill(1, Math.max(at, end), at + form.length);
    end = at + form.length;
  }
}

/** Marks the beginning of a value at the end of the text, because the server may have cut the text within the value. */
function takeBeginning(text: string, form: string, taken: Uint8Array): void {
  const end = text.length - (CUT.exec(text)?.[0].length ?? 0);
  for (let length = Math.min(form.length, SHORTEST_PIECE) - 1; length >= SHORT; length -= 1) {
    if (!text.endsWith(form.slice(0, length), end)) continue;
    taken.fill(1, end - length, end);
    return;
  }
}

function wholeWord(form: string): RegExp {
  const literal = form.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
  return new RegExp(`(?<![A-Za-z0-9])${literal}(?![A-Za-z0-9])`, 'g');
}

function withoutTaken(text: string, taken: Uint8Array): string {
  let result = '';
  for (let at = 0; at < text.length; at += 1) {
    if (taken[at] !== 1) result += text[at];
    else if (taken[at - 1] !== 1) result += REDACTED;
  }
  return result;
}

/**
 * Finds the pieces of `length` characters that are both in `text` and in one of `forms`, and marks their characters in
 * `text`. Reads each form one time, so that a value of a million equal letters does not take long.
 * @param length length of the shortest piece that counts; an even number
 * @param marks one byte for each character of `text`; set to 1 for a marked character
 */
export function markCommonPieces(text: string, forms: Iterable<string>, length: number, marks: Uint8Array): void {
  // A gram is half as long as a piece. Each piece of a form contains a gram that begins at a multiple of this length in
  // the form. So only these places of the form are searched.
  const step = length / 2;
  const grams = new Set<string>();
  for (let at = 0; at + step <= text.length; at += 1) grams.add(text.slice(at, at + step));
  const places = new Map<string, number[]>();
  for (let at = 0; at + length <= text.length; at += 1) {
    const piece = text.slice(at, at + length);
    const known = places.get(piece);
    if (known === undefined) places.set(piece, [at]);
    else known.push(at);
  }
  for (const form of forms) {
    for (let gram = 0; gram + step <= form.length; gram += step) {
      if (!grams.has(form.slice(gram, gram + step))) continue;
      for (let start = Math.max(0, gram - step + 1); start <= gram; start += 1) {
        const piece = form.slice(start, start + length);
        for (const at of places.get(piece) ?? []) marks.fill(1, at, at + length);
        // All places of this piece are marked now.
        places.delete(piece);
      }
    }
  }
}
