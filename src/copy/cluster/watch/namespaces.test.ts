import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';

import type { KubeApi, KubeObject } from '../../../kube/api.ts';
import { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { NamespaceReads } from './namespace-reads.ts';
import { ACCEPT_FROM_ANNOTATION, Namespaces } from './namespaces.ts';

type Texts = Record<string, string>;

function namespace(name: string, labels: Texts = {}, annotations: Texts = {}, uid = name): KubeObject {
  return { metadata: { name, uid, resourceVersion: '1', creationTimestamp: '', labels, annotations } };
}

/** The changes that the handlers are told, since the last call. */
function recorded(namespaces: Namespaces): () => string[] {
  const changes: string[] = [];
  namespaces.onChange((name, there, _initial, changed) => {
    const what = changed === 'existence' ? (there ? 'came' : 'went') : `changed ${[...changed].join()}`;
    changes.push(`${name} ${what}`);
  });
  return () => changes.splice(0);
}

test('nothing is kept of labels and annotations that nobody asked for, and their changes are no changes', () => {
  const namespaces = new Namespaces();
  const changes = recorded(namespaces);
  namespaces.sink.upsert(namespace('a', { tier: 'x' }, { note: 'y' }), true);
  namespaces.sink.upsert(namespace('a', { tier: 'z' }, { note: 'z' }), false);
  assert.equal(namespaces.factsOf('a'), undefined);
  assert.deepEqual(changes(), ['a came']);
});

test('labels with kept keys and the consent are facts, whose changes are told', () => {
  const namespaces = new Namespaces();
  const changes = recorded(namespaces);
  namespaces.keep(['tier']);
  namespaces.sink.upsert(namespace('a', { tier: 'x', other: 'y' }), false);
  assert.deepEqual(namespaces.factsOf('a'), { labels: { tier: 'x' } });
  namespaces.sink.upsert(namespace('a', { tier: 'x', other: 'z' }), false);
  namespaces.sink.upsert(namespace('a', { tier: 'y' }), false);
  namespaces.sink.upsert(namespace('a', {}, { [ACCEPT_FROM_ANNOTATION]: '' }), false);
  assert.deepEqual(namespaces.factsOf('a'), { labels: {}, acceptFrom: '' });
  namespaces.sink.upsert(namespace('a'), false);
  assert.equal(namespaces.factsOf('a'), undefined);
  assert.deepEqual(changes(), [
    'a came',
    'a changed tier',
    `a changed tier,${ACCEPT_FROM_ANNOTATION}`,
    `a changed ${ACCEPT_FROM_ANNOTATION}`,
  ]);
  namespaces.sink.upsert(namespace('a', { tier: 'x' }, {}, 'again'), false);
  namespaces.sink.remove(namespace('a'));
  assert.equal(namespaces.factsOf('a'), undefined);
  assert.deepEqual(changes(), ['a came', 'a went']);
});

test('a new key is known after a list, in which what the watch brings meanwhile is newer', async () => {
  const namespaces = new Namespaces();
  for (const name of ['a', 'b', 'c', 'd']) namespaces.sink.upsert(namespace(name, { tier: 'old' }), false);
  const changes = recorded(namespaces);
  namespaces.keep(['tier']);
  assert.equal(namespaces.knows(['tier']), false);
  await namespaces.relist(async (take) => {
    namespaces.keep(['late']);
    namespaces.sink.upsert(namespace('b', { tier: 'new' }), false);
    namespaces.sink.remove(namespace('c'));
    for (const name of ['a', 'b', 'c', 'unknown']) take(namespace(name, { tier: 'listed' }));
    take(namespace('d', { tier: 'listed' }, {}, 'made again'));
    await Promise.resolve();
  });
  const labels = ['a', 'b', 'c', 'd', 'unknown'].map((name) => namespaces.factsOf(name)?.labels['tier']);
  assert.deepEqual(labels, ['listed', 'new', undefined, undefined, undefined]);
  assert.deepEqual([namespaces.knows(['tier']), namespaces.knows(['tier', 'late'])], [true, false]);
  assert.deepEqual(changes(), ['b changed tier', 'c went'], 'the rules that asked for the key wait for the list');
});

test('a list for a new key hides no change of what is known from the watch that tells it', async () => {
  const namespaces = new Namespaces();
  namespaces.keep(['tier']);
  namespaces.sink.upsert(namespace('a', { tier: 'old' }), true);
  assert.equal(namespaces.knows(['tier']), true, 'all namespaces came with it');
  const changes = recorded(namespaces);
  namespaces.keep(['team']);
  const newer = namespace('a', { tier: 'new', team: 'x' }, { [ACCEPT_FROM_ANNOTATION]: '' });
  await namespaces.relist(async (take) => {
    take(newer);
    await Promise.resolve();
  });
  assert.deepEqual(namespaces.factsOf('a'), { labels: { tier: 'old', team: 'x' } });
  namespaces.sink.upsert(newer, false);
  assert.deepEqual(namespaces.factsOf('a'), { labels: { tier: 'new', team: 'x' }, acceptFrom: '' });
  assert.deepEqual(changes(), [`a changed tier,${ACCEPT_FROM_ANNOTATION}`]);
});

test('a list that fails makes no key known', async () => {
  const namespaces = new Namespaces();
  namespaces.sink.upsert(namespace('a', { tier: 'x' }), true);
  namespaces.keep(['tier']);
  await assert.rejects(
    namespaces.relist(() => Promise.reject(new Error('refused'))),
    /refused/,
  );
  assert.equal(namespaces.knows(['tier']), false);
});

test('after any history, the facts are those of the last state', () => {
  const name = fc.constantFrom('a', 'b');
  const labels = fc.dictionary(fc.constantFrom('x', 'y'), fc.constantFrom('', '1'));
  const consent = fc.option(fc.constantFrom('', 'team'), { nil: undefined });
  const event = fc.record({ name, labels, consent, gone: fc.boolean() });
  fc.assert(
    fc.property(fc.array(event), (history) => {
      const [past, fresh] = [new Namespaces(), new Namespaces()];
      const last = new Map<string, KubeObject>();
      for (const each of [past, fresh]) each.keep(['x']);
      for (const { name: which, labels: some, consent: text, gone } of history) {
        const object = namespace(which, some, text === undefined ? {} : { [ACCEPT_FROM_ANNOTATION]: text });
        if (gone) past.sink.remove(object);
        else past.sink.upsert(object, false);
        last.delete(which);
        if (!gone) last.set(which, object);
      }
      for (const object of last.values()) fresh.sink.upsert(object, true);
      for (const which of ['a', 'b']) assert.deepEqual(past.factsOf(which), fresh.factsOf(which));
    }),
  );
});

test('nothing is read of the namespaces of a list: there is no right to', async () => {
  const api: KubeApi = { cluster: 'c', request: refuse, stream: refuse };
  const signal = new AbortController().signal;
  const reads = new NamespaceReads({ api, namespaces: new Namespaces(), served: new ServedNamespaces(['a']) });
  assert.equal(await reads.isCurrent('a', signal), true);
  const bySelector = new NamespaceReads({
    api,
    namespaces: new Namespaces(),
    served: new ServedNamespaces([], 'tier=a'),
  });
  await assert.rejects(bySelector.isCurrent('a', signal), /must not be asked/);
});

async function refuse(): Promise<never> {
  return await Promise.reject(new Error('the server must not be asked'));
}
