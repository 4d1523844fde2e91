import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { KubeObject } from '../../kube/api.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import { NamespacedSinks } from './namespaced-sink.ts';

function object(namespace: string, name: string): KubeObject {
  return { metadata: { namespace, name, uid: name, resourceVersion: '1', creationTimestamp: '' } };
}

/** Keeps what does not begin with `x`, as a store of rules does. */
class Store implements WatchSink {
  readonly kept = new Set<string>();

  upsert({ metadata: { namespace, name } }: KubeObject): boolean {
    const key = `${namespace}/${name}`;
    const isRule = !name.startsWith('x');
    this.kept[isRule ? 'add' : 'delete'](key);
    return isRule;
  }

  remove({ metadata: { namespace, name } }: KubeObject): void {
    this.kept.delete(`${namespace}/${name}`);
  }

  prune(keys: ReadonlySet<string>): void {
    for (const key of this.kept) if (!keys.has(key)) this.kept.delete(key);
  }
}

test('the list of one namespace removes what is gone there, and nothing elsewhere', () => {
  const store = new Store();
  const sinks = new NamespacedSinks(store);
  const [a, b] = [sinks.of('a'), sinks.of('b')];
  for (const name of ['one', 'two']) {
    a.upsert(object('a', name), true);
    b.upsert(object('b', name), true);
  }
  a.prune(new Set(['a/two']), '5');
  assert.deepEqual([...store.kept], ['b/one', 'a/two', 'b/two']);
});

test('together they keep what one watch of all namespaces would keep', () => {
  const namespace = fc.constantFrom('a', 'b', 'c');
  const name = fc.constantFrom('one', 'two', 'x1');
  const step = fc.record({ namespace, name, what: fc.constantFrom('upsert', 'remove', 'list') });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const [joined, whole] = [new Store(), new Store()];
      const sinks = new NamespacedSinks(joined);
      const byNamespace = new Map(['a', 'b', 'c'].map((one) => [one, sinks.of(one)]));
      for (const { namespace: place, name: subject, what } of steps) {
        const sink = byNamespace.get(place)!;
        const changed = object(place, subject);
        if (what === 'upsert') assert.equal(sink.upsert(changed, false), whole.upsert(changed));
        if (what === 'remove') {
          sink.remove(changed);
          whole.remove(changed);
        }
        if (what === 'list') {
          // Of its namespace only this object is left.
          sink.upsert(changed, true);
          sink.prune(new Set(subject.startsWith('x') ? [] : [`${place}/${subject}`]), '1');
          whole.upsert(changed);
          whole.prune(
            new Set([...whole.kept].filter((key) => !key.startsWith(`${place}/`) || key === `${place}/${subject}`)),
          );
        }
        assert.deepEqual([...joined.kept].toSorted(), [...whole.kept].toSorted());
      }
    }),
  );
});
