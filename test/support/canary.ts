/**
 * Canaries are secret values that a test makes up and uses like real ones. At its end, the test searches for them in
 * all output that other people can read: logs, events, metrics, statuses, errors. So a leak of a value is found.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';

/** An encoding in which a leaked value could appear. */
type Form = 'raw' | 'JSON' | 'URL' | 'hex' | 'base64' | 'base64url';

export interface CanaryFinding {
  /** The name of the text that contains the canary. */
  readonly where: string;
  readonly form: Form;
  /** The name of the canary, in place of its value. */
  readonly canary: string;
}

/**
 * Makes a value that no text contains by chance. With a quote, a backslash and a letter outside of ASCII, it looks
 * different in each encoding.
 */
export function makeCanary(name: string): string {
  return `canary"${name}\\ü${randomBytes(12).toString('hex')}`;
}

/**
 * A value in all encodings.
 * @throws Error if the value has less than 8 bytes, because a text could have it by chance
 */
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

/** Finds the values in a text, in any encoding. @param values by the name of the canary */
export function findCanaries(where: string, text: string, values: Readonly<Record<string, string>>): CanaryFinding[] {
  return Object.entries(values).flatMap(([canary, value]) =>
    canaryForms(value)
      .filter(([, form]) => text.includes(form))
      .map(([form]) => ({ where, form, canary })),
  );
}

/**
 * @param texts by a name, which the error's message quotes
 * @throws AssertionError if a text contains a value. The message names text, canary and encoding, but not the value
 */
export function assertNoCanaries(
  texts: Readonly<Record<string, string>>,
  values: Readonly<Record<string, string>>,
): void {
  const findings = Object.entries(texts).flatMap(([where, text]) => findCanaries(where, text, values));
  assert.deepEqual(findings, [], 'secret values leaked');
}

/**
 * The characters that a value has in base64, wherever it is in a longer text. base64 encodes groups of three bytes, so
 * the value can begin at three positions of a group. Its first and last characters also depend on the text around it,
 * and are left out.
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
