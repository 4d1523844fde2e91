/** Checks the choices of a SecretMirror, with values that objects may have that are older than the CRD's schema. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import type { DestinationType, SecretMirrorDestination, SourceType } from '../api.ts';
import { type Choices, choicesOf } from './choices.ts';

function read(destination: unknown, from: SourceType = 'secret', to: DestinationType = 'namespaces') {
  const problems: string[] = [];
  const types = { from, to };
  const choices: Choices = choicesOf(destination as SecretMirrorDestination, types, new PatternCache('full'), problems);
  return { choices, problems };
}

/** `spec.destination`, type of the source, type of the destination, and how the message about the problem begins. */
const REFUSED: readonly (readonly [unknown, SourceType, DestinationType, string])[] = [
  [{ name: '../x' }, 'secret', 'namespaces', 'spec.destination.name: "../x" is not a valid object name'],
  [{ keys: [] }, 'secret', 'namespaces', 'spec.destination.keys: must be a list of 1 to 100 keys'],
  [{ keys: 'a' }, 'secret', 'namespaces', 'spec.destination.keys: must be a list'],
  [{ keys: [null] }, 'secret', 'namespaces', 'spec.destination.keys[0].from: must be specified'],
  [{ keys: [{ from: 'a/b' }] }, 'vault', 'namespaces', 'spec.destination.keys[0].to: "a/b" is not a key'],
  [
    { keys: [{ from: 'a', to: '..data' }] },
    'secret',
    'namespaces',
    'spec.destination.keys[0].to: "..data" is not a key',
  ],
  [{ keys: [{ from: '.' }] }, 'vault', 'namespaces', 'spec.destination.keys[0].to: "." is not a key'],
  [{ keys: [{ from: 'a' }, { from: 'b', to: 'a' }] }, 'secret', 'vault', 'spec.destination.keys[1].to: two keys'],
  [{ secretType: 'Opaque' }, 'configmap', 'namespaces', 'spec.destination.secretType: is not for ConfigMaps'],
  [{}, 'configmap', 'vault', 'spec.destination.type: a ConfigMap can only be copied to namespaces'],
  [{ copyAnnotations: ['a'] }, 'vault', 'namespaces', 'spec.destination.copyAnnotations: is not for Vault'],
  [{ labels: { a: 'b' } }, 'secret', 'vault', 'spec.destination.labels: is only for a destination of type namespaces'],
  [{ secretType: 'a' }, 'secret', 'vault', 'spec.destination.secretType: is only for a destination of type namespaces'],
  [{ secretType: 'a' }, 'vault', 'vault', 'spec.destination.secretType: is only for a destination of type namespaces'],
  [{ namespaceSelector: {} }, 'secret', 'vault', 'spec.destination.namespaceSelector: is only for'],
  [{ labels: { 'keyferry.dev/copy': 'x' } }, 'secret', 'namespaces', 'spec.destination.labels: "keyferry.dev/copy" is'],
  [{ labels: { a: 'b c' } }, 'secret', 'namespaces', 'spec.destination.labels: the value of "a" is not valid'],
  [{ annotations: { a: 1 } }, 'secret', 'namespaces', 'spec.destination.annotations: the value of "a" is not valid'],
  [{ annotations: { 'a b': '' } }, 'secret', 'namespaces', 'spec.destination.annotations: "a b" is not a valid key'],
  [{ copyLabels: ['('] }, 'secret', 'namespaces', 'spec.destination.copyLabels[0]: has a problem compiling'],
  [{ copyLabels: ['(a{1,1000}){1,1000}'] }, 'secret', 'namespaces', 'spec.destination.copyLabels[0]: has a problem'],
];

describe('choices of a SecretMirror', () => {
  for (const [destination, from, to, words] of REFUSED) {
    it(`spec.destination ${JSON.stringify(destination)} is refused if the source is of type ${from} and the destination of type ${to}`, () => {
      const { problems } = read(destination, from, to);
      assert.ok(problems[0]?.startsWith(words), problems.join('; '));
    });
  }

  it('all mirrors without choices share one choices object', () => {
    const nothing = read({}).choices;
    assert.equal(nothing.id, undefined);
    assert.equal(read({ namespaces: ['a'], secretType: '' }).choices, nothing);
    // This use of `secretType` is older than the choices, so it does not count as a choice.
    assert.equal(read({ secretType: 'kubernetes.io/tls' }, 'vault').choices, nothing);
  });

  it('if the choices of two mirrors differ in one field, their ids differ', () => {
    const different = [
      { keys: [{ from: 'a' }] },
      { keys: [{ from: 'a', to: 'b' }] },
      { secretType: 'a' },
      { labels: { a: 'b' } },
      { annotations: { a: 'b' } },
      { copyLabels: [] },
      { copyAnnotations: [] },
    ].map((destination) => read(destination).choices.id);
    assert.equal(new Set(different).size, different.length);
  });

  it('copyLabels and copyAnnotations share one limit for the complexity of their patterns, which 50 usual patterns do not reach', () => {
    const simple = Array.from({ length: 25 }, (_, index) => `app${index}[.]io/.*`);
    assert.deepEqual(read({ copyLabels: simple, copyAnnotations: simple.map((text) => `x${text}`) }).problems, []);
    const half = Array.from({ length: 6 }, (_, index) => `x${index}{99}`);
    assert.deepEqual(read({ copyLabels: half }).problems, []);
    const [problem] = read({ copyLabels: half, copyAnnotations: half.map((text) => `y${text}`) }).problems;
    assert.match(problem ?? '', /^spec\.destination\.copyAnnotations\[\d+\]: .* too complex in combination/);
  });

  it('if a mirror chooses keys of a Vault entry, the type of its copies is Opaque by default', () => {
    const keys = [{ from: 'a' }];
    assert.equal(read({ keys }, 'vault').choices.type, 'Opaque');
    assert.equal(read({ keys }).choices.type, undefined);
    assert.equal(read({ keys, secretType: 'x' }).choices.type, 'x');
  });
});
