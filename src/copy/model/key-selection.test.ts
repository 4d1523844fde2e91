import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { userCause } from './cause.ts';
import { Content } from './content.ts';
import { type ChosenKey, KeySelection } from './key-selection.ts';
import { CONFIG_MAP, SECRET } from './kind.ts';

const select = (...keys: (Partial<ChosenKey> & { from: string })[]): KeySelection => {
  const chosen = keys.map(({ from, to = from, optional = false }) => ({ from, to, optional }));
  return new KeySelection(chosen, (missing) => userCause('KeyNotFound', missing.join(' ')));
};
const secret = (data: Record<string, string>, version = '1'): Content =>
  Content.ofFields(SECRET, { data }, 'Opaque', version);
const texts = (content: Content): string[] => content.pieces.map(({ field, json }) => `${field} ${json.utf8()}`);
function chosenOf(selection: KeySelection, content: Content): Content {
  const { chosen, missing } = selection.select(content);
  return chosen ?? assert.fail(missing?.message);
}

describe('chosen keys', () => {
  it('if keys are chosen, the content is the same as that of an object with only these keys', () => {
    const source = secret({ a: 'MQ==', b: 'Mg==', c: 'Mw==' });
    const chosen = chosenOf(select({ from: 'b', to: 'a' }, { from: 'c' }, { from: 'x', optional: true }), source);
    const same = secret({ a: 'Mg==', c: 'Mw==' });
    assert.deepEqual([chosen.fingerprint, texts(chosen)], [same.fingerprint, texts(same)]);
    assert.equal(chosen.names.size, 2);
  });

  it('a key of the binary data of a ConfigMap can be chosen twice, under two names', () => {
    const source = Content.ofFields(CONFIG_MAP, { data: { a: '1' }, binaryData: { b: 'AA==' } }, '', '1');
    const binary = chosenOf(select({ from: 'b', to: 'x' }, { from: 'b', to: 'y' }), source);
    assert.deepEqual(texts(binary), ['data {}', 'binaryData {"x":"AA==","y":"AA=="}']);
    const same = Content.ofFields(CONFIG_MAP, { binaryData: { y: 'AA==', x: 'AA==' } }, '', '1');
    assert.equal(binary.fingerprint.digest, same.fingerprint.digest);
  });

  it('a chosen key can have a name that each JavaScript object has as a property, such as toString', () => {
    const source = secret(JSON.parse('{"__proto__":"MQ==","toString":"Mg=="}') as Record<string, string>);
    const chosen = chosenOf(select({ from: '__proto__' }, { from: 'toString', to: 'a' }), source);
    assert.deepEqual(texts(chosen), ['data {"__proto__":"MQ==","a":"Mg=="}']);
    assert.equal(select({ from: 'valueOf' }).select(source).missing?.message, 'valueOf');
  });

  it('if the source lacks chosen keys that are not optional, the cause names them', () => {
    const result = select({ from: 'a' }, { from: 'b', to: 'a2' }, { from: 'c' }).select(secret({ a: '' }));
    assert.deepEqual([result.missing?.message, result.chosen], ['b c', undefined]);
  });

  it('if two selections choose the same keys of a source, they share one content in memory', () => {
    const source = secret({ a: 'MQ==' });
    assert.equal(chosenOf(select({ from: 'a' }), source), chosenOf(select({ from: 'a' }), source));
    assert.notEqual(chosenOf(select({ from: 'a', to: 'b' }), source), chosenOf(select({ from: 'a' }), source));
  });

  it('without the values, a selection knows its result only for the last content that it was applied to', () => {
    const selection = select({ from: 'a' });
    const [first, second] = [secret({ a: 'MQ==', b: '' }), secret({ b: '' }, '2')];
    assert.equal(selection.known(first.fingerprint), undefined);
    const { fingerprint } = chosenOf(selection, first);
    assert.equal(selection.known(first.fingerprint)?.chosen, fingerprint);
    assert.equal(selection.known(second.fingerprint), undefined);
    selection.select(second);
    assert.equal(selection.known(second.fingerprint)?.missing?.reason, 'KeyNotFound');
    assert.equal(selection.known(undefined), undefined);
  });
});
