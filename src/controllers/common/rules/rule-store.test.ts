/** Which objects are stored as rules, and which changes are reported. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import type { KubeObject, ObjectMeta } from '../../../kube/api.ts';
import { RuleStore, ruleVersion } from './rule-store.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';

const KEY: RuleKey = asKey('test:default/x');

function object(resourceVersion: number, more: Partial<ObjectMeta> = {}): KubeObject {
  const metadata = { name: 'x', namespace: 'default', uid: 'u', generation: 1, creationTimestamp: '', ...more };
  return { metadata: { ...metadata, resourceVersion: String(resourceVersion) } };
}

/** A store of the objects without the label `other`, with its changes: `<generation before> → <generation after>`. */
function storeWithChanges(): { readonly store: RuleStore<KubeObject>; readonly changes: () => string[] } {
  let changes: string[] = [];
  const generation = (rule?: KubeObject): string => String(rule?.metadata.generation ?? 'none');
  const store = new RuleStore({
    controller: 'test',
    toRule: (object) => {
      const { annotations: _, ...metadata } = object.metadata;
      return metadata.labels?.['other'] === undefined ? { metadata } : undefined;
    },
    versionOf: ruleVersion,
    onChange: (key, initial, before, after) => {
      assert.equal(store.get(key), after, 'the store has the change already');
      changes.push(`${key}${initial ? ' initial' : ''}: ${generation(before)} → ${generation(after)}`);
    },
  });
  const taken = (): string[] => changes.splice(0);
  return { store, changes: taken };
}

const OTHER = { labels: { other: '' } };

describe('a store of rules', () => {
  it('a store reports an object that is added, changed or deleted, and no change of its status', () => {
    const { store, changes } = storeWithChanges();
    assert.equal(store.sink.upsert(object(1), true), true);
    assert.deepEqual(changes(), [`${KEY} initial: none → 1`]);
    store.sink.upsert(object(2), false);
    assert.deepEqual(changes(), []);
    assert.equal(store.get(KEY)?.metadata.resourceVersion, '2');
    store.sink.upsert(object(3, { generation: 2 }), false);
    assert.deepEqual(changes(), [`${KEY}: 1 → 2`]);
    store.sink.upsert(object(4, { generation: 2, finalizers: ['f'] }), false);
    store.sink.upsert(object(5, { generation: 2, finalizers: ['f'], deletionTimestamp: 'now' }), false);
    assert.deepEqual(changes(), [`${KEY}: 2 → 2`, `${KEY}: 2 → 2`]);
    store.sink.remove(object(6, { generation: 2 }));
    store.sink.remove(object(6, { generation: 2 }));
    assert.deepEqual(changes(), [`${KEY}: 2 → none`]);
    assert.deepEqual([...store.all()], []);
  });

  it('a store takes the answer to a write, unless the watch has already brought that version', () => {
    const { store } = storeWithChanges();
    const status = (): unknown => store.get(KEY);
    store.put(object(1));
    store.storeResponse(object(2));
    assert.equal(store.get(KEY)?.metadata.resourceVersion, '2');
    const known = status();
    store.storeResponse(object(2));
    assert.equal(status(), known, 'the watch has the status as it was stored');
    store.storeResponse(object(3, { uid: 'another' }));
    assert.equal(status(), known);
  });

  it('a store keeps only the part of an object that toRule returns', () => {
    const { store } = storeWithChanges();
    store.put(object(1, { annotations: { long: 'text' } }));
    assert.equal(store.get(KEY)?.metadata.annotations, undefined);
  });

  it('a store drops an object that is no rule any more, and takes it when it is a rule again', () => {
    const { store, changes } = storeWithChanges();
    assert.equal(store.sink.upsert(object(1, OTHER), true), false);
    assert.deepEqual(changes(), []);
    store.put(object(2));
    assert.equal(store.sink.upsert(object(3, OTHER), false), false);
    assert.equal(store.get(KEY), undefined);
    store.put(object(4));
    assert.deepEqual(changes(), [`${KEY}: none → 1`, `${KEY}: 1 → none`, `${KEY}: none → 1`]);
    assert.equal(store.versionOf(object(5, OTHER)), undefined);
    assert.equal(store.versionOf(object(5)), ruleVersion(object(4)));
  });

  it('a store ignores an older version of an object', () => {
    const { store, changes } = storeWithChanges();
    store.put(object(10, { generation: 2 }));
    assert.equal(store.sink.upsert(object(9), false), true);
    assert.equal(store.sink.upsert(object(9, OTHER), false), true);
    assert.equal(store.get(KEY)?.metadata.generation, 2);
    assert.deepEqual(changes(), [`${KEY}: none → 2`]);
  });

  it('a store takes the answer to a write only while it has an object with the same uid', () => {
    const { store, changes } = storeWithChanges();
    store.storeResponse(object(1));
    assert.equal(store.get(KEY), undefined);
    store.put(object(2));
    store.storeResponse(object(3, { uid: 'earlier', generation: 7 }));
    assert.equal(store.get(KEY)?.metadata.uid, 'u');
    store.storeResponse(object(3, { generation: 2 }));
    assert.deepEqual(changes(), [`${KEY}: none → 1`, `${KEY}: 1 → 2`]);
  });

  it('a store drops the objects that a list does not have', () => {
    const { store, changes } = storeWithChanges();
    store.put(object(1));
    store.put(object(1, { name: 'y' }));
    changes();
    store.sink.prune(new Set(['default/y']), '2');
    assert.deepEqual(changes(), [`${KEY}: 1 → none`]);
    assert.deepEqual(
      Array.from(store.all(), ([key]) => key),
      ['test:default/y'],
    );
  });

  it('after the list of one namespace, a store keeps the objects of the other namespaces', () => {
    const { store, changes } = storeWithChanges();
    store.put(object(1));
    store.sink.prune(new Set(), '2', 'other');
    assert.notEqual(store.get(KEY), undefined);
    store.sink.prune(new Set(), '2', 'default');
    assert.deepEqual(changes(), [`${KEY}: none → 1`, `${KEY}: 1 → none`]);
  });
});
