/**
 * Makes text that a server sent fit for logs, events and statuses: one line, bounded, and without anything that we
 * sent it. Vault quotes a request's field in some errors (`error converting input "…" for field`), and the address may
 * be no Vault at all.
 */

/** Longest text of one error, in UTF-16 units. An event's message may have 1,024 bytes. */
const MAX_LENGTH = 300;
const MAX_ERRORS = 5;
const REDACTED = '[redacted]';

/** Vault's and OpenBao's tokens: service, batch and recovery ones, in the old and the new style. */
const TOKEN = /\b(?:hv[sbr]|[sbr])\.[A-Za-z0-9_-]{20,}/g;

/** @param secrets everything confidential in the request: token, credentials, values */
export function scrub(texts: readonly string[], secrets: readonly string[]): readonly string[] {
  const forms = [...new Set(secrets.flatMap(formsOf))].toSorted((a, b) => b.length - a.length);
  return texts.slice(0, MAX_ERRORS).map((text) => oneLine(redact(text, forms)));
}

function redact(text: string, forms: readonly string[]): string {
  let result = text;
  for (const form of forms) {
    result = form.length >= 4 ? result.replaceAll(form, REDACTED) : result.replace(wholeWord(form), `$1${REDACTED}`);
  }
  return result.replace(TOKEN, REDACTED);
}

/** A value as it may come back: as it is, as in JSON or Go's `%q`, in base64, in a URL. */
function formsOf(secret: string): readonly string[] {
  if (secret === '') return [];
  const escaped = JSON.stringify(secret).slice(1, -1);
  const base64 = Buffer.from(secret).toString('base64');
  return [secret, secret.trim(), escaped, base64, encodeURIComponent(secret.toWellFormed())].filter((f) => f !== '');
}

/** Two letters are in every sentence: such a value is only taken out where it stands alone. */
function wholeWord(form: string): RegExp {
  const literal = form.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
  return new RegExp(`(^|[^A-Za-z0-9])${literal}(?![A-Za-z0-9])`, 'g');
}

function oneLine(text: string): string {
  // oxlint-disable-next-line no-control-regex
  const line = text.replace(/[\u0000-\u001F\u007F-\u009F\u2028\u2029\s]+/g, ' ').trim();
  return line.length <= MAX_LENGTH ? line : `${line.slice(0, MAX_LENGTH).toWellFormed()}…`;
}
