/**
 * Canary values: secrets that a test invents, uses like real ones, and searches for afterwards in all output that
 * unauthorized people may read (logs, events, metrics, statuses, errors).
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';

/** A form in which a value may leak. */
type Form = 'raw' | 'JSON' | 'URL' | 'hex' | 'base64' | 'base64url';

export interface CanaryFinding {
  /** The searched text: a file, or the given name. */
  readonly where: string;
  readonly form: Form;
  /** The name of the canary; its value is not repeated. */
  readonly canary: string;
}

/**
 * A value that does not occur by chance, with a quote, a backslash and a letter outside ASCII, so that JSON, URLs and
 * base64 each encode it in a different form.
 */
export function makeCanary(name: string): string {
  return `canary"${name}\\ü${randomBytes(12).toString('hex')}`;
}

/** The forms in which a value may appear in a text. @throws Error for a value so short that it could occur by chance. */
export function canaryForms(value: string): readonly (readonly [Form, string])[] {
  if (Buffer.byteLength(value) < 8)
    throw new Error(`a canary needs 8 bytes at least, this has ${Buffer.byteLength(value)}`);
  const forms: (readonly [Form, string])[] = [
    ['raw', value],
    ['JSON', JSON.stringify(value).slice(1, -1)],
    ['URL', encodeURIComponent(value)],
    ['hex', Buffer.from(value).toString('hex')],
  ];
  for (const text of base64Cores(value)) {
    forms.push(['base64', text], ['base64url', text.replaceAll('+', '-').replaceAll('/', '_')]);
  }
  return forms.filter(([, text], n) => forms.findIndex(([, other]) => other === text) === n);
}

/** The occurrences of the values (by name) in the text. */
export function findCanaries(where: string, text: string, values: Readonly<Record<string, string>>): CanaryFinding[] {
  return Object.entries(values).flatMap(([canary, value]) =>
    canaryForms(value)
      .filter(([, form]) => text.includes(form))
      .map(([form]) => ({ where, form, canary })),
  );
}

/** @throws AssertionError naming place and form, never the value. `texts` is by a name for the message. */
export function assertNoCanaries(
  texts: Readonly<Record<string, string>>,
  values: Readonly<Record<string, string>>,
): void {
  const findings = Object.entries(texts).flatMap(([where, text]) => findCanaries(where, text, values));
  assert.deepEqual(findings, [], 'secret values leaked');
}

/**
 * The part of the value's base64 that does not depend on the text around it: in a longer text it starts at one of three
 * positions within a group of three bytes, and shares its first and last characters with the text around it.
 */
function base64Cores(value: string): string[] {
  return [0, 1, 2].map((offset) => {
    const encoded = Buffer.from(' '.repeat(offset) + value)
      .toString('base64')
      .replace(/=+$/, '');
    const first = offset === 0 ? 0 : offset + 1;
    const wholeGroups = Math.floor((offset + Buffer.byteLength(value)) / 3) * 4;
    return encoded.slice(first, wholeGroups);
  });
}
