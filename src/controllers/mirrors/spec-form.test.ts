/** Checks what `plan` reports on a SecretMirror that the API server would refuse because of the CRD's schema. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { specProblem } from './spec-form.ts';

test('a value in a SecretMirror that the CRD refuses is reported with its field and the allowed values', () => {
  const cases: readonly (readonly [Record<string, unknown>, string | undefined])[] = [
    [{}, undefined],
    [{ source: null, destination: { namespaces: ['e1'], secretType: 'Opaque' }, deletePolicy: 'retain' }, undefined],
    [{ source: [] }, 'spec.source is not an object'],
    [{ source: { name: 10 } }, 'spec.source.name is a number: put it in quotes'],
    [{ source: { type: 'Secret' } }, 'spec.source.type: "Secret" must be one of secret, vault, configmap'],
    [{ destination: { type: 'Vault' } }, 'spec.destination.type: "Vault" must be one of namespaces, vault'],
    [{ deletePolicy: 'keep' }, 'spec.deletePolicy: "keep" must be one of delete, retain'],
    [{ deletePolicy: true }, 'spec.deletePolicy: true must be one of delete, retain'],
    [{ destination: { namespaces: 'a' } }, 'spec.destination.namespaces is not a list of strings'],
    [{ destination: { namespaces: ['a', 10] } }, 'spec.destination.namespaces[1] is a number: put it in quotes'],
    [
      { destination: { excludedNamespaces: [true] } },
      'spec.destination.excludedNamespaces[0] is a boolean: put it in quotes',
    ],
    [
      { destination: { namespaceSelector: { matchLabels: { tier: 5 } } } },
      'spec.destination.namespaceSelector is not a label selector',
    ],
  ];
  for (const [spec, problem] of cases) assert.equal(specProblem(spec), problem);
});
