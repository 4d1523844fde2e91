/**
 * Canaries: secret values that a test invents and uses like real ones. Afterwards it searches for them in all output
 * that other people may read: logs, events, metrics, statuses, errors.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';

/** An encoding in which a value may leak. */
type Form = 'raw' | 'JSON' | 'URL' | 'hex' | 'base64' | 'base64url';

export interface CanaryFinding {
  /** The name of the text in which it was found. */
  readonly where: string;
  readonly form: Form;
  /** The name of the canary. Its value is not repeated here. */
  readonly canary: string;
}

/**
 * A value that does not occur by chance. It has a quote, a backslash and a letter outside of ASCII, so that each
 * encoding gives it another form.
 */
export function makeCanary(name: string): string {
  return `canary"${name}\\ü${randomBytes(12).toString('hex')}`;
}

/** A value in each encoding. @throws Error for a value so short that it could occur by chance */
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

/** Finds the values, given by name, in a text. */
export function findCanaries(where: string, text: string, values: Readonly<Record<string, string>>): CanaryFinding[] {
  return Object.entries(values).flatMap(([canary, value]) =>
    canaryForms(value)
      .filter(([, form]) => text.includes(form))
      .map(([form]) => ({ where, form, canary })),
  );
}

/**
 * @param texts by a name for the message
 * @throws AssertionError that names text and form of a canary, and not its value
 */
export function assertNoCanaries(
  texts: Readonly<Record<string, string>>,
  values: Readonly<Record<string, string>>,
): void {
  const findings = Object.entries(texts).flatMap(([where, text]) => findCanaries(where, text, values));
  assert.deepEqual(findings, [], 'secret values leaked');
}

/**
 * The parts of the value's base64 that do not depend on the text around it. In a longer text the value begins at one of
 * three positions in a group of three bytes, and shares its first and last characters with the text around it.
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
