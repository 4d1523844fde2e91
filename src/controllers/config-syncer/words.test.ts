import assert from 'node:assert/strict';
import { test } from 'node:test';
import { labelOf, NAMES, originIn, originLabels, selectionIn, sourceIn, MARK } from './words.ts';

const HOME = { namespace: 'b', name: 's' };
const PLACED = { 'keyferry.dev/target': 'b/s' };

test('marks name the source that is elsewhere and has the same name; those of the original only with the same cluster', () => {
  const labels = originLabels({ namespace: 'a', name: 's' }, 'c');
  const source = (...[home, given, annotations, cluster]: Parameters<typeof sourceIn>): string | undefined =>
    sourceIn(home, given, annotations, cluster)?.namespace;
  const origin = { [NAMES.origin]: '{"namespace":"a","name":"s","uid":"1"}' };
  assert.equal(source(HOME, labels, origin, 'c'), 'a');
  assert.equal(source(HOME, labels, {}, 'c'), undefined, 'labels alone');
  assert.equal(source(HOME, labels, { [NAMES.origin]: '{"namespace":"b","name":"s"}' }, 'c'), undefined, 'they differ');
  assert.equal(source(HOME, labels, origin, ''), undefined, 'another cluster');
  assert.equal(
    source({ ...HOME, namespace: 'a' }, labels, origin, 'c'),
    undefined,
    'a source that the original stamped',
  );
  assert.equal(source({ ...HOME, name: 'other' }, labels, origin, 'c'), undefined, 'another name');
  assert.equal(source(HOME, labels, PLACED, 'c'), undefined, 'another controller of Keyferry made it');
  assert.equal(source(HOME, {}, { ...PLACED, [MARK]: 'a/s' }, 'c'), 'a', 'our mark counts without labels');
  assert.equal(source(HOME, labels, { ...PLACED, [MARK]: 'x/a/s' }, 'c'), undefined);
  for (const key of Object.keys(labels)) {
    const { [key]: _, ...fewer } = labels;
    assert.equal(source(HOME, fewer, origin, 'c'), undefined, key);
  }
});

test('a name is a label; a long one is shortened to 63 characters that differ for each name', () => {
  const [a, b] = ['a', 'b'].map((end) => labelOf(`${'x'.repeat(252)}${end}`));
  assert.equal(labelOf('x'.repeat(63)), 'x'.repeat(63));
  assert.equal(a?.length, 63);
  assert.match(a ?? '', /^x{52}-[0-9a-f]{10}$/);
  assert.notEqual(a, b);
});

test('the annotation origin is read as JSON, and anything else as missing', () => {
  assert.deepEqual(originIn({ [NAMES.origin]: '{"uid":"u"}' }), { uid: 'u' });
  for (const text of ['', 'x', 'null', '1', '{']) assert.equal(originIn({ [NAMES.origin]: text }), undefined);
});

test('sync is a selector: empty and true select all, false a label, and what cannot be read is a cause', () => {
  const matches = (text: string, labels: Record<string, string>): boolean | undefined => {
    const selection = selectionIn({ [NAMES.sync]: text });
    return selection === undefined || 'reason' in selection ? undefined : selection.labels?.matches(labels);
  };
  assert.equal(selectionIn({}), undefined);
  for (const text of ['', ' ', 'true']) assert.equal(matches(text, {}), true);
  assert.deepEqual([matches('false', {}), matches('false', { false: '' })], [false, true]);
  assert.equal(matches('a in (x,y),!b', { a: 'x' }), true);
  for (const text of ['a=(', 'a in', '*', 'a=b;c', 'a'.repeat(70_000)])
    assert.equal(matches(text, {}), undefined, text);
});
