import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withinCpu } from '../../../../test/support/yardstick.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { selects } from '../../common/namespaces/selection.ts';
import type { SecretMirror } from '../api.ts';
import { effectiveSpec } from './spec.ts';

function mirrorWith(namespaces: readonly string[]): SecretMirror {
  const metadata = { name: 'm', namespace: 'n', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  return { metadata, spec: { destination: { namespaces } } };
}

test('if the patterns of a mirror are too complex together, the first patterns apply, and the other patterns are ignored and reported', () => {
  const large = Array.from({ length: 30 }, (_, index) => `${'(a|b){1,50}'.repeat(4)}${index}`);
  const spec = effectiveSpec(mirrorWith(['good', ...large, 'late']), new PatternCache('full'));
  const left = spec.namespaces.patterns.length;
  assert.ok(left > 0 && left < large.length && selects(spec.namespaces, 'good'), `${left} are left`);
  assert.match(spec.problems.join(), /from #\d+ on are ignored: the patterns are too complex/);
});

test('a pattern that is too complex is reported within 100 ms of CPU time, and the other patterns of the mirror apply', () => {
  const monsters = [
    '(a|b){1,1000}'.repeat(150),
    '((a|b){1,30}c){1,33}'.repeat(100),
    '[a-z]{1000}'.repeat(30),
    '(?:(?:x{100}){10}y){30}',
    `${'('.repeat(3)}${'a{1,1000}'.repeat(30)}${')'.repeat(3)}`,
  ];
  for (const monster of monsters) {
    const spec = withinCpu(100, monster.slice(0, 30), () =>
      effectiveSpec(mirrorWith(['good', monster, 'late']), new PatternCache('full')),
    );
    assert.deepEqual([...spec.namespaces.names], ['good', 'late']);
    assert.match(spec.problems.join(), /namespaces\[1\].*too complex/);
  }
});

test('if the name of the source is invalid, a problem is reported, and sourceName is undefined, so that no request path has the name', () => {
  for (const name of ['A_b', '../c', 'a/b', 'a b', 'x'.repeat(254), '.', 'a..b']) {
    const metadata = { name: 'm', namespace: 'n', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
    const mirror: SecretMirror = { metadata, spec: { source: { name }, destination: { namespaces: ['a'] } } };
    const spec = effectiveSpec(mirror, new PatternCache('full'));
    assert.equal(spec.sourceName, undefined, name);
    assert.match(spec.problems.join(), /spec\.source\.name/, name);
  }
});
