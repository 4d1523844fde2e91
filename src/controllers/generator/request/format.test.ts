import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { SecretBytes } from '../../../runtime/secret-bytes.ts';
import { type Decoding, DECODINGS, encodedFor, FORMATS, type Format, generateValue } from './settings.ts';

const ALPHABETS: Readonly<Record<Exclude<Format, 'uuid'>, string>> = {
  hex: '0123456789abcdef',
  password: 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789#!',
};
const CLASSES = [/[a-z]/, /[A-Z]/, /\d/, /[#!]/];

function make(format: Format, length: number, symbols = '#!'): string {
  return generateValue({ format, length, symbols, whenDeleted: false }).utf8();
}

/**
 * How unequal the counts are: their chi-square statistic, in standard deviations above the mean for equal frequencies.
 */
function deviation(counts: readonly number[]): number {
  const expected = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  const chiSquare = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  const freedom = counts.length - 1;
  return (chiSquare - freedom) / Math.sqrt(2 * freedom);
}

/** Limit of `deviation`: random values with equal frequencies exceed it at most once in 10⁹ runs. */
const LIMIT = 12;

function countsOf(text: string, alphabet: string): number[] {
  const counts = new Map(Array.from(alphabet, (character) => [character, 0]));
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
  assert.equal(counts.size, alphabet.length, 'only characters of the alphabet');
  return [...counts.values()];
}

test('a generated value has exactly the requested length, and only the characters of its format', () => {
  const lengths = [...Array.from({ length: 60 }, (_, index) => index + 8), 255, 256, 1000, 4095, 4096];
  for (const format of ['hex', 'password'] as const) {
    for (const length of lengths) {
      const value = make(format, length);
      assert.equal(value.length, length, `${format} ${length}`);
      countsOf(value, ALPHABETS[format]);
    }
  }
  for (let index = 0; index < 100; index += 1) {
    assert.match(make('uuid', 36), /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
  }
});

test('200 generated values of the same format are all different', () => {
  for (const format of FORMATS) {
    assert.equal(new Set(Array.from({ length: 200 }, () => make(format, 32))).size, 200, format);
  }
});

test('all characters of a format are equally frequent in generated values', () => {
  for (const format of ['hex', 'password'] as const) {
    const text = Array.from({ length: 25 }, () => make(format, 4096)).join('');
    assert.ok(deviation(countsOf(text, ALPHABETS[format])) < LIMIT, format);
  }
  // `deviation` detects the usual mistake: random bytes modulo 62.
  const alphabet = ALPHABETS.password.slice(0, 62);
  const biased = Array.from(randomBytes(25 * 4096), (byte) => alphabet.charAt(byte % 62)).join('');
  assert.ok(deviation(countsOf(biased, alphabet)) > 3 * LIMIT);
});

test('a password has a lower-case letter, a capital, a digit and a symbol', () => {
  for (let index = 0; index < 400; index += 1) {
    const value = make('password', 8);
    for (const one of CLASSES) assert.match(value, one);
  }
});

test('a password can be made with one allowed symbol, and with all 32 symbols of ASCII', () => {
  assert.match(make('password', 8, '#'), /#/);
  const all = Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index)).filter((one) =>
    /\W|_/.test(one),
  );
  assert.equal(all.length, 32);
  countsOf(make('password', 4096, all.join('')), ALPHABETS.password.slice(0, 62) + all.join(''));
});

test('with each decodingStrategy, ESO decodes the text in Vault to the generated value', () => {
  // As `Decode` in pkg/esutils of ESO. `fromBase64` is as strict as Go's decoder.
  const decoders: Readonly<Record<Decoding, (text: string) => string>> = {
    None: (text) => text,
    Base64: (text) => SecretBytes.fromBase64(text).utf8(),
    Base64URL: (text) => SecretBytes.fromBase64(text.replaceAll('-', '+').replaceAll('_', '/')).utf8(),
    Auto: (text) => SecretBytes.fromBase64(text).utf8(),
  };
  for (const format of FORMATS) {
    for (const length of [8, 9, 10, 64]) {
      const value = generateValue({ format, length, symbols: '#!', whenDeleted: false });
      for (const decoding of DECODINGS) assert.equal(decoders[decoding](encodedFor(decoding, value)), value.utf8());
    }
  }
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.constantFrom(...DECODINGS), (text, decoding) => {
      const encoded = encodedFor(decoding, SecretBytes.fromUtf8(text));
      assert.equal(decoders[decoding](encoded), text);
      if (decoding === 'Base64URL') assert.doesNotMatch(encoded, /[+/]/);
    }),
  );
});

test('in a password of 8 characters, each class is at each position with the same probability', () => {
  const places = CLASSES.map(() => Array.from({ length: 8 }, () => 0));
  for (let index = 0; index < 400; index += 1)
    for (const [place, character] of Array.from(make('password', 8)).entries())
      for (const [number, one] of CLASSES.entries())
        if (one.test(character)) places[number]?.splice(place, 1, (places[number][place] ?? 0) + 1);
  for (const [number, counts] of places.entries()) assert.ok(deviation(counts) < LIMIT, String(CLASSES[number]));
});
