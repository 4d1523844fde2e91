import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as fc from 'fast-check';

import type { KubeObject } from '../../../kube/api.ts';
import { parseSelector } from '../../../runtime/text/label-selector.ts';
import { ACCEPT_FROM_ANNOTATION, Namespaces } from './namespaces.ts';

type Texts = Record<string, string>;

function namespace(name: string, labels: Texts = {}, annotations: Texts = {}, uid = name): KubeObject {
  return { metadata: { name, uid, resourceVersion: '1', creationTimestamp: '', labels, annotations } };
}

/** Makes a function that returns the changes that were reported since its last call. */
function recorded(namespaces: Namespaces): () => string[] {
  const changes: string[] = [];
  namespaces.onChange((name, change) => {
    changes.push(`${name} ${change}${namespaces.has(name) ? '' : ' gone'}`);
  });
  return () => changes.splice(0);
}

test('the labels and the consent of a namespace are known, and their changes are reported', () => {
  const namespaces = new Namespaces();
  const changes = recorded(namespaces);
  namespaces.sink.upsert(namespace('a', { tier: 'x', other: 'y' }, { note: 'x' }));
  assert.deepEqual(namespaces.factsOf('a'), { labels: { tier: 'x', other: 'y' } });
  namespaces.sink.upsert(namespace('a', { tier: 'x', other: 'y' }, { note: 'y' }));
  namespaces.sink.upsert(namespace('a', { tier: 'y', other: 'y' }));
  namespaces.sink.upsert(namespace('a', { other: 'y' }, { [ACCEPT_FROM_ANNOTATION]: '' }));
  assert.deepEqual(namespaces.factsOf('a'), { labels: { other: 'y' }, acceptFrom: '' });
  namespaces.sink.upsert(namespace('a'));
  assert.equal(namespaces.factsOf('a'), undefined);
  assert.deepEqual(changes(), ['a all', 'a labels', 'a all', 'a all']);
  namespaces.sink.upsert(namespace('a', { tier: 'x' }, {}, 'again'));
  namespaces.sink.remove(namespace('a'));
  assert.equal(namespaces.factsOf('a'), undefined);
  assert.deepEqual(changes(), ['a all', 'a all gone']);
});

test('a namespace with more than 16 KiB of labels counts as absent, until it has fewer', () => {
  const namespaces = new Namespaces();
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`a${1000 + index}`, 'x'.repeat(60)]));
  const tooMany = namespace('a', { ...many, zone: 'restricted' });
  namespaces.sink.upsert(namespace('a', { zone: 'restricted' }));
  assert.deepEqual([namespaces.has('a'), namespaces.isKnown(tooMany)], [true, false]);
  namespaces.sink.upsert(tooMany);
  assert.deepEqual(
    [namespaces.has('a'), namespaces.factsOf('a'), namespaces.isKnown(tooMany)],
    [false, undefined, true],
  );
  namespaces.sink.upsert(namespace('a', { zone: 'restricted' }));
  assert.deepEqual([namespaces.has('a'), namespaces.isKnown(tooMany)], [true, false]);
});

test('property: after any history of events, the labels and consent of a namespace are those of its last state', () => {
  const name = fc.constantFrom('a', 'b');
  const labels = fc.dictionary(fc.constantFrom('x', 'y'), fc.constantFrom('', '1'), { noNullPrototype: true });
  const consent = fc.option(fc.constantFrom('', 'team'), { nil: undefined });
  const event = fc.record({ name, labels, consent, gone: fc.boolean() });
  fc.assert(
    fc.property(fc.array(event), (history) => {
      const [past, fresh] = [new Namespaces(), new Namespaces()];
      const last = new Map<string, KubeObject>();
      for (const { name: which, labels: some, consent: text, gone } of history) {
        const object = namespace(which, some, text === undefined ? {} : { [ACCEPT_FROM_ANNOTATION]: text });
        if (gone) past.sink.remove(object);
        else past.sink.upsert(object);
        last.delete(which);
        if (!gone) last.set(which, object);
      }
      for (const object of last.values()) fresh.sink.upsert(object);
      for (const which of ['a', 'b']) assert.deepEqual(past.factsOf(which), fresh.factsOf(which));
    }),
  );
});

test('property: after any history of events, a selector finds the same namespaces by the label index as among all namespaces', () => {
  const name = fc.constantFrom('a', 'b', 'c', 'd');
  const labels = fc.dictionary(fc.constantFrom('x', 'y', 'z'), fc.constantFrom('', '1', '2'));
  const event = fc.record({ name, labels, what: fc.constantFrom('put', 'put', 'remove') });
  const requirement = fc.record({
    key: fc.constantFrom('x', 'y', 'z', 'never'),
    operator: fc.constantFrom('=', '!=', 'in', 'notin', 'exists', '!'),
    value: fc.constantFrom('', '1', '2'),
  });
  const selector = fc.array(
    requirement.map(({ key, operator, value }) => {
      if (operator === 'exists') return key;
      if (operator === '!') return `!${key}`;
      return operator.endsWith('in') ? `${key} ${operator} (${value},2)` : `${key}${operator}${value}`;
    }),
    { maxLength: 3 },
  );
  fc.assert(
    fc.property(fc.array(event), fc.array(selector), (history, selectors) => {
      const namespaces = new Namespaces();
      for (const { name: which, labels: some, what } of history) {
        const object = namespace(which, some);
        if (what === 'put') namespaces.sink.upsert(object);
        else namespaces.sink.remove(object);
      }
      for (const parts of selectors) {
        const labelled = parseSelector(parts.join());
        const matching = (names: Iterable<string>): string[] =>
          [...names].filter((one) => labelled.matches(namespaces.factsOf(one)?.labels ?? {})).toSorted();
        const found = [...namespaces.names(labelled)].toSorted();
        assert.deepEqual(matching(found), matching(namespaces.names()), parts.join());
        // If the selector has only one requirement, the label index returns only namespaces that match.
        if (parts.length === 1 && labelled.needed.length === 1) assert.deepEqual(matching(found), found);
      }
    }),
  );
});

test('if a selector needs several labels, only the namespaces with the rarest of these labels are checked', () => {
  const namespaces = new Namespaces();
  for (let index = 0; index < 9; index += 1)
    namespaces.sink.upsert(namespace(`n-${index}`, { tier: 'prod', team: `t-${index % 3}` }));
  const found = (text: string): number => [...namespaces.names(parseSelector(text))].length;
  assert.deepEqual(['tier,team=t-1', 'team in (t-1,t-2),tier', 'tier=prod,team=t-1', '!tier'].map(found), [3, 6, 3, 9]);
});

test('two labels of a namespace take at most 512 bytes of memory, including the index by label', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const used = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const [namespaces, count] = [new Namespaces(), 10_000];
  const fill = (labels: (index: number) => string): void => {
    for (let index = 0; index < count; index += 1)
      namespaces.sink.upsert(JSON.parse(`{"metadata":{"name":"n-${index}","uid":"u-${index}",${labels(index)}}}`));
  };
  fill(() => '"labels":{}');
  const before = used();
  fill((index) => `"labels":{"tier":"prod","team":"team-${index}"}`);
  const bytes = (used() - before) / count;
  assert.deepEqual([...namespaces.names(parseSelector('tier=prod,team=team-1'))], ['n-1']);
  assert.ok(bytes > 0 && bytes <= 512, `${bytes} bytes`);
});
