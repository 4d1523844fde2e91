import assert from 'node:assert/strict';
import { test } from 'node:test';

import { HeldObjects } from '../../../test/support/held-objects.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import type { KubeObject } from '../api.ts';
import { ServedNamespaces } from './served-namespaces.ts';

function namespace(name: string): KubeObject {
  return { metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: '' } };
}

function selected() {
  const clock = new ManualClock();
  const served = new ServedNamespaces([], 'team=a', clock);
  const changes: string[] = [];
  served.onChange((name, isServed) => changes.push(`${isServed ? '+' : '-'}${name}`));
  const known = new HeldObjects();
  return { clock, served, changes, known, sink: served.sinkBefore(known) };
}

test('a list of served namespaces never changes; without list and selector every namespace is served', async () => {
  const served = ServedNamespaces.of(['a'], undefined);
  assert.deepEqual(
    [served?.names, served?.has('a'), served?.has('b'), served?.flag],
    [['a'], true, false, '--namespaces'],
  );
  await served?.listed;
  assert.equal(ServedNamespaces.of([], undefined), undefined);
  assert.equal(ServedNamespaces.of([], 'x')?.flag, '--namespace-selector');
});

test('a namespace is served as soon as it is selected, and dropped as soon as it is no longer selected', async () => {
  const { served, changes, sink, known } = selected();
  sink.upsert(namespace('a'), true);
  assert.deepEqual([served.has('a'), known.objects.size], [true, 1]);
  sink.prune(new Set(['a']), '1');
  await served.listed;
  sink.upsert(namespace('b'), false);
  sink.upsert(namespace('b'), false);
  sink.remove(namespace('a'));
  sink.remove(namespace('a'));
  assert.deepEqual(changes, ['+a', '+b', '-a']);
  assert.deepEqual([served.names, known.objects.size], [['b'], 1]);
  // The watch had a gap, and the new list has no namespace.
  sink.prune(new Set(), '9');
  assert.deepEqual([changes.at(-1), served.names, known.objects.size], ['-b', [], 0]);
});

test('a namespace that is selected again within a second has to wait, so that a changing label opens few watches', async () => {
  const { served, changes, sink, known, clock } = selected();
  for (let flip = 0; flip < 50; flip += 1) {
    sink.upsert(namespace('a'), false);
    sink.remove(namespace('a'));
  }
  assert.deepEqual(changes, ['+a', '-a']);
  sink.upsert(namespace('a'), false);
  assert.deepEqual([served.has('a'), known.objects.size], [false, 0]);
  await clock.advance(1000);
  assert.deepEqual([served.has('a'), known.objects.size, changes.at(-1)], [true, 1, '+a']);
  sink.remove(namespace('a'));
  await clock.advance(1000);
  assert.deepEqual([served.has('a'), clock.pendingTimers], [false, 0]);
  // After the second has passed, the namespace is served at once when it is selected.
  sink.upsert(namespace('a'), false);
  assert.equal(served.has('a'), true);
  served.stop();
  assert.equal(clock.pendingTimers, 0);
});

test('if a namespace waits to be served again and a new list lacks it, it is not served', async () => {
  const { served, sink, clock } = selected();
  sink.upsert(namespace('a'), false);
  sink.remove(namespace('a'));
  sink.upsert(namespace('a'), false);
  sink.prune(new Set(), '9');
  await clock.advance(2000);
  assert.deepEqual(served.names, []);
});

test('a handler that was removed gets no more changes of served namespaces', () => {
  const { served, sink } = selected();
  const heard: string[] = [];
  served.onChange((name) => heard.push(name))();
  sink.upsert(namespace('a'), true);
  assert.deepEqual(heard, []);
});
