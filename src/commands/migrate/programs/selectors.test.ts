import assert from 'node:assert/strict';
import { it } from 'node:test';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';

import { configSyncer } from './config-syncer.ts';
import { mittwald } from './kubernetes-replicator.ts';
import { reflector } from './reflector.ts';
import type { Foreign } from './requests.ts';

const MITTWALD = 'replicator.v1.mittwald.de/';
const REFLECTOR = 'reflector.v1.k8s.emberstack.com/';
const ALLOWED = { [`${REFLECTOR}reflection-allowed`]: 'true' };
const AUTO = { ...ALLOWED, [`${REFLECTOR}reflection-auto-enabled`]: 'true' };

function textOf(program: Foreign, annotations: Readonly<Record<string, string>>): string {
  const [remark] = program.sourceOf({ annotations, labels: {} } as never, new PatternCache('full'))?.remarks ?? [];
  assert.equal(remark?.verdict, 'unsupported');
  return remark.text;
}

const expression = (key: string, operator: string, ...values: string[]): object =>
  values.length === 0 ? { key, operator } : { key, operator, values };

it('if an annotation of another copier has a label selector, the finding advises a SecretMirror with the same selector', () => {
  const table: [Foreign, Record<string, string>, object[]][] = [
    [configSyncer, { 'kubed.appscode.com/sync': 'app=x' }, [expression('app', 'In', 'x')]],
    [
      mittwald,
      { [`${MITTWALD}replicate-to-matching`]: 'a notin (b, c), !d' },
      [expression('a', 'NotIn', 'b', 'c'), expression('d', 'DoesNotExist')],
    ],
    [
      reflector,
      { ...AUTO, [`${REFLECTOR}reflection-auto-namespaces-selector`]: 'tier' },
      [expression('tier', 'Exists')],
    ],
    [
      reflector,
      {
        ...AUTO,
        [`${REFLECTOR}reflection-allowed-namespaces-selector`]: 'a=1',
        [`${REFLECTOR}reflection-auto-namespaces-selector`]: 'b=2',
      },
      [expression('a', 'In', '1'), expression('b', 'In', '2')],
    ],
  ];
  for (const [program, annotations, matchExpressions] of table) {
    const text = textOf(program, annotations);
    assert.ok(text.includes(`spec.destination.namespaceSelector ${JSON.stringify({ matchExpressions })}`), text);
  }
});

it('if the label selector in an annotation of another copier is invalid, the finding says why', () => {
  const text = textOf(mittwald, { [`${MITTWALD}replicate-to-matching`]: 'a b' });
  assert.match(text, /the selector is invalid \("a b" is not a requirement of a label selector: /);
});

it('if a source with a label selector is only pulled, the finding advises no SecretMirror, which would push', () => {
  const text = textOf(reflector, { ...ALLOWED, [`${REFLECTOR}reflection-allowed-namespaces-selector`]: 'a=1' });
  assert.doesNotMatch(text, /SecretMirror/);
});
