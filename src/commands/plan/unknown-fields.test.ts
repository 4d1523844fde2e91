import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readCrds } from '../../../scripts/crd/read-crds.ts';
import { parseManifests } from './manifests.ts';
import { schemasIn, unknownFields } from './unknown-fields.ts';

const SCHEMAS = schemasIn(readCrds());

/** The paths of the unknown fields in a SecretMirror with this spec. */
function pathsIn(spec: string, kind = 'apiVersion: mirrors.kts.studio/v1alpha2\nkind: SecretMirror'): string[] {
  const manifests = parseManifests(`${kind}\nmetadata: {name: m, nams: x}\n${spec}\n`, 'm.yaml', new Set());
  const sentences = manifests.flatMap((manifest) => unknownFields(manifest, SCHEMAS));
  return sentences.map((sentence) => /^unknown field (\S+), which/.exec(sentence)?.[1] ?? sentence);
}

test('plan names a field that the CRD lacks with its path, also inside maps and lists', () => {
  for (const [spec, ...expected] of [
    ['spec: {source: {name: a}, destination: {namespaceSelector: {matchLabels: {team: a}}}}'],
    [
      'spec: {destination: {namespaceSelector: {matchLabel: {team: a}}}}',
      'spec.destination.namespaceSelector.matchLabel',
    ],
    [
      'spec: {destination: {namespaceSelector: {matchExpressions: [{key: a, operator: Exists}, {ky: a}]}}}',
      'spec.destination.namespaceSelector.matchExpressions[1].ky',
    ],
    ['spec: {source: {nam: a}, destinations: {}}', 'spec.source.nam', 'spec.destinations'],
    ['spec: {source: {constructor: a}}', 'spec.source.constructor'],
    ['spce: {}', 'spce'],
    ['spec: [a]'],
    ['spec: null'],
  ] as const) {
    assert.deepEqual(pathsIn(spec), expected, spec);
  }
});

test('the sentence on an unknown field lists the known fields of the same object', () => {
  const [manifest] = parseManifests(
    'apiVersion: mirrors.kts.studio/v1alpha2\nkind: SecretMirror\nmetadata: {name: m}\nspec: {destination: {namespaceSelector: {matchLabel: {}}}}\n',
    'm.yaml',
    new Set(),
  );
  assert.ok(manifest);
  assert.deepEqual(unknownFields(manifest, SCHEMAS), [
    'unknown field spec.destination.namespaceSelector.matchLabel, which the API server drops; known are matchLabels, matchExpressions',
  ]);
});

test("plan checks fields by the CRD of the manifest's version and kind; without such a CRD it checks none", () => {
  assert.deepEqual(pathsIn('spec: {retry: 1}', 'apiVersion: mirrors.kts.studio/v1alpha1\nkind: SecretMirror'), [
    'spec.retry',
  ]);
  assert.deepEqual(pathsIn('dta: {a: YQ==}', 'apiVersion: kubelb.k8c.io/v1alpha1\nkind: SyncSecret'), ['dta']);
  assert.deepEqual(pathsIn('data: {a: YQ==}', 'apiVersion: kubelb.k8c.io/v1alpha1\nkind: SyncSecret'), []);
  assert.deepEqual(pathsIn('dta: {a: YQ==}', 'apiVersion: v1\nkind: Secret'), []);
});
