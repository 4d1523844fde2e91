/** Tests which objects a RuleStore stores as rules, and which changes it reports. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import type { KubeObject, ObjectMeta } from '../../../kube/api.ts';
import { RuleStore, ruleVersion } from './rule-store.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { RuleKey } from '../../model/keys.ts';

const KEY: RuleKey = asKey('test:default/x');

function object(resourceVersion: number, more: Partial<ObjectMeta> = {}): KubeObject {
  const metadata = { name: 'x', namespace: 'default', uid: 'u', generation: 1, creationTimestamp: '', ...more };
  return { metadata: { ...metadata, resourceVersion: String(resourceVersion) } };
}

/**
 * In this store, an object is a rule if it lacks the label `other`. Changes: `<generation before> → <generation
 * after>`.
 */
function storeWithChanges(): { readonly store: RuleStore<KubeObject>; readonly changes: () => string[] } {
  const changes: string[] = [];
  const last = new Map<RuleKey, KubeObject | undefined>();
  const generation = (rule?: KubeObject): string => String(rule?.metadata.generation ?? 'none');
  const store = new RuleStore({
    controller: 'test',
    toRule: (object) => {
      const { annotations: _, ...metadata } = object.metadata;
      return metadata.labels?.['other'] === undefined ? { metadata } : undefined;
    },
    versionOf: ruleVersion,
    onChange: (key, after) => {
      assert.equal(store.get(key), after, 'the store has the change already');
      changes.push(`${key}: ${generation(last.get(key))} → ${generation(after)}`);
      last.set(key, after);
    },
  });
  const taken = (): string[] => changes.splice(0);
  return { store, changes: taken };
}

const OTHER = { labels: { other: '' } };

describe('a store of rules', () => {
  it('a store of rules reports an object that is added, changed or deleted, but not a change of its status', () => {
    const { store, changes } = storeWithChanges();
    assert.equal(store.sink.upsert(object(1)), true);
    assert.deepEqual(changes(), [`${KEY}: none → 1`]);
    store.sink.upsert(object(2));
    assert.deepEqual(changes(), []);
    assert.equal(store.get(KEY)?.metadata.resourceVersion, '2');
    store.sink.upsert(object(3, { generation: 2 }));
    assert.deepEqual(changes(), [`${KEY}: 1 → 2`]);
    store.sink.upsert(object(4, { generation: 2, finalizers: ['f'] }));
    store.sink.upsert(object(5, { generation: 2, finalizers: ['f'], deletionTimestamp: 'now' }));
    assert.deepEqual(changes(), [`${KEY}: 2 → 2`, `${KEY}: 2 → 2`]);
    store.sink.remove(object(6, { generation: 2 }));
    store.sink.remove(object(6, { generation: 2 }));
    assert.deepEqual(changes(), [`${KEY}: 2 → none`]);
    assert.deepEqual([...store.all()], []);
  });

  it('a store of rules stores the response to a write only if the watch has not brought the same resourceVersion before', () => {
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

  it('a store of rules stores only the part of an object that toRule returns', () => {
    const { store } = storeWithChanges();
    store.put(object(1, { annotations: { long: 'text' } }));
    assert.equal(store.get(KEY)?.metadata.annotations, undefined);
  });

  it('a store of rules removes an object that ceases to be a rule, and stores it when it becomes a rule again', () => {
    const { store, changes } = storeWithChanges();
    assert.equal(store.sink.upsert(object(1, OTHER)), false);
    assert.deepEqual(changes(), []);
    store.put(object(2));
    assert.equal(store.sink.upsert(object(3, OTHER)), false);
    assert.equal(store.get(KEY), undefined);
    store.put(object(4));
    assert.deepEqual(changes(), [`${KEY}: none → 1`, `${KEY}: 1 → none`, `${KEY}: none → 1`]);
    assert.equal(store.versionOf(object(5, OTHER)), undefined);
    assert.equal(store.versionOf(object(5)), ruleVersion(object(4)));
  });

  it('a store of rules ignores an object with an older resourceVersion than the stored one', () => {
    const { store, changes } = storeWithChanges();
    store.put(object(10, { generation: 2 }));
    assert.equal(store.sink.upsert(object(9)), true);
    assert.equal(store.sink.upsert(object(9, OTHER)), true);
    assert.equal(store.get(KEY)?.metadata.generation, 2);
    assert.deepEqual(changes(), [`${KEY}: none → 2`]);
  });

  it('a store of rules stores the response to a write, which may lack other fields, only if it has the same object in the same generation', () => {
    const { store, changes } = storeWithChanges();
    store.storeResponse(object(1));
    assert.equal(store.get(KEY), undefined);
    store.put(object(2));
    store.storeResponse(object(3, { uid: 'earlier', generation: 7 }));
    assert.equal(store.get(KEY)?.metadata.uid, 'u');
    store.storeResponse(object(3, { generation: 2 }));
    assert.equal(store.get(KEY)?.metadata.resourceVersion, '2', 'its other fields may be others, too');
    store.storeResponse(object(4, { finalizers: ['f'] }));
    assert.deepEqual(store.get(KEY)?.metadata.finalizers, ['f']);
    assert.deepEqual(changes(), [`${KEY}: none → 1`, `${KEY}: 1 → 1`]);
  });

  it('after a list, a store of rules removes the objects that are not in the list', () => {
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

  it('when a store of rules receives the list of one namespace, it keeps the objects of the other namespaces', () => {
    const { store, changes } = storeWithChanges();
    store.put(object(1));
    store.sink.prune(new Set(), '2', 'other');
    assert.notEqual(store.get(KEY), undefined);
    store.sink.prune(new Set(), '2', 'default');
    assert.deepEqual(changes(), [`${KEY}: none → 1`, `${KEY}: 1 → none`]);
  });
});
