import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { selectedIn } from '../../common/namespaces/selection.ts';
import type { SecretMirrorDestination } from '../api.ts';
import { destinationTexts, readDestinations } from './destinations.ts';

const THERE: readonly (readonly [string, Record<string, string>])[] = [
  ['prod-1', { tier: 'prod' }],
  ['prod-2', { tier: 'prod', team: 'a' }],
  ['test-1', { tier: 'test' }],
  ['plain', {}],
];

/** The names of the selected namespaces, and the problems. */
async function read(
  destination: SecretMirrorDestination,
  served?: ServedNamespaces,
): Promise<readonly [string, readonly string[]]> {
  const namespaces = new Namespaces();
  for (const [name, labels] of THERE) {
    const metadata = { name, uid: name, resourceVersion: '1', creationTimestamp: '', labels };
    namespaces.sink.upsert({ metadata });
  }
  const problems: string[] = [];
  const { namespaces: selection } = readDestinations(destination, new PatternCache('full'), served, problems);
  return [[...(await selectedIn(selection, namespaces))].join(' '), problems];
}

test('a namespace is selected if it matches a pattern and the selector (as far as the spec has them) and no exclusion', async () => {
  const prod = { matchLabels: { tier: 'prod' } };
  const table: [SecretMirrorDestination, string][] = [
    [{ namespaces: ['.*'] }, 'prod-1 prod-2 test-1 plain'],
    [{ namespaces: ['.*-1', 'plain'] }, 'prod-1 test-1 plain'],
    [{ namespaces: ['.*-1', 'plain'], namespaceSelector: prod }, 'prod-1'],
    [{ namespaces: ['plain'], namespaceSelector: prod }, ''],
    [{ namespaceSelector: prod }, 'prod-1 prod-2'],
    [{ namespaces: [], namespaceSelector: prod }, 'prod-1 prod-2'],
    [{ namespaceSelector: {} }, 'prod-1 prod-2 test-1 plain'],
    [{ namespaceSelector: { matchExpressions: [{ key: 'team', operator: 'DoesNotExist' }] } }, 'prod-1 test-1 plain'],
    [{ namespaceSelector: prod, excludedNamespaces: ['.*-2'] }, 'prod-1'],
    [{ namespaces: ['prod-1', 'plain'], excludedNamespaces: ['prod-1'] }, 'plain'],
    [{ namespaces: ['.*'], excludedNamespaces: ['.*'] }, ''],
  ];
  for (const [destination, expected] of table) assert.deepEqual(await read(destination), [expected, []]);
});

test('if an exclusion or the selector of a mirror has a mistake, the mirror selects no namespace', async () => {
  const table: [SecretMirrorDestination, RegExp][] = [
    [{ namespaces: ['.*'], excludedNamespaces: ['('] }, /^spec\.destination\.excludedNamespaces\[0\]: /],
    [{ namespaces: ['.*'], excludedNamespaces: [''] }, /^spec\.destination\.excludedNamespaces\[0\]: is empty/],
    [{ namespaceSelector: { matchLabels: { 'a b': 'x' } } }, /^spec\.destination\.namespaceSelector\.matchLabels: /],
    [{}, /^spec\.destination\.namespaces: destination namespaces are empty/],
  ];
  for (const [destination, problem] of table) {
    const [selected, problems] = await read(destination);
    assert.equal(selected, '');
    assert.match(problems.join('\n'), problem);
  }
  const labels = { namespaceSelector: { matchLabels: {} } };
  assert.match((await read(labels, new ServedNamespaces(['plain'])))[1].join(), /--namespaces/);
});

test('the selected namespaces of a mirror are shown as its patterns, and its label selector as in a flag: selector:tier=prod', () => {
  const namespaceSelector = {
    matchLabels: { tier: 'prod' },
    matchExpressions: [
      { key: 'team', operator: 'NotIn', values: ['a', 'b'] },
      { key: 'old', operator: 'DoesNotExist' },
    ],
  } as const;
  assert.deepEqual(destinationTexts({ namespaces: ['x-.*'], namespaceSelector }), [
    'x-.*',
    'selector:tier=prod,team notin (a,b),!old',
  ]);
});
