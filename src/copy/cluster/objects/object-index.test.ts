import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import type { ObjectMeta } from '../../../kube/api.ts';
import { ObjectIndex } from './object-index.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { ObjectKey } from '../../model/keys.ts';

const meta = (resourceVersion: string, uid = 'u1'): ObjectMeta => ({
  name: 'n',
  namespace: 'ns',
  uid,
  resourceVersion,
  creationTimestamp: '2024-01-01T00:00:00Z',
});

function setUp() {
  const changes: string[] = [];
  const index = new ObjectIndex('c', 'Secret', (_key, before, after, own) =>
    changes.push(`${before?.resourceVersion ?? '-'}>${after?.resourceVersion ?? '-'}${own === true ? ' own' : ''}`),
  );
  const { sink } = index.feed();
  return { index, sink, changes, version: () => index.get('ns', 'n')?.resourceVersion };
}

describe('the response to a write', () => {
  it('the response to a write is stored before the watch brings the object, and the change is reported only one time', () => {
    const { index, sink, changes, version } = setUp();
    using request = index.beginRequest(asKey('c:Secret/ns/n'));
    request.storeResponse(meta('5'));
    assert.equal(version(), '5');
    sink.upsert({ metadata: meta('5') });
    assert.deepEqual(changes, ['->5']);
    sink.remove({ metadata: meta('6') });
    assert.equal(version(), undefined);
  });

  it('the response to a write is dropped if the watch has already brought the deletion of the object', () => {
    const { index, sink, changes, version } = setUp();
    using request = index.beginRequest(asKey('c:Secret/ns/n'));
    sink.upsert({ metadata: meta('5') });
    sink.remove({ metadata: meta('6') });
    request.storeResponse(meta('5'));
    assert.equal(version(), undefined);
    assert.deepEqual(changes, ['->5', '5>-']);
  });

  it('the response to a write is dropped if a newer list does not have the object', () => {
    const { index, sink, version } = setUp();
    using request = index.beginRequest(asKey('c:Secret/ns/n'));
    sink.prune(new Set(), '9');
    request.storeResponse(meta('5'));
    assert.equal(version(), undefined);
  });

  it('the response to a write is stored if a list of another namespace lacks the object; a newer list of its own namespace removes it', () => {
    const { index, sink, version } = setUp();
    sink.upsert({ metadata: meta('3') });
    sink.prune(new Set(), '9', 'n');
    assert.equal(version(), '3');
    {
      using request = index.beginRequest(asKey('c:Secret/ns/n'));
      sink.prune(new Set(), '9', 'n');
      request.storeResponse(meta('5'));
    }
    assert.equal(version(), '5');
    sink.prune(new Set(), '9', 'ns');
    assert.equal(version(), undefined);
  });

  it('the response to a write is stored if a deletion was reported before the request, or belongs to an older object with the same name', () => {
    const { index, sink, version } = setUp();
    sink.remove({ metadata: meta('9') });
    using request = index.beginRequest(asKey('c:Secret/ns/n'));
    sink.prune(new Set(), '3');
    sink.remove({ metadata: meta('4', 'u0') });
    request.storeResponse(meta('5'));
    assert.equal(version(), '5');
  });

  it('of two responses, one is dropped if a deletion was reported after its request began, and one is stored if its request began later', () => {
    const { index, sink, version } = setUp();
    using early = index.beginRequest(asKey('c:Secret/ns/n'));
    sink.remove({ metadata: meta('6') });
    using late = index.beginRequest(asKey('c:Secret/ns/n'));
    early.storeResponse(meta('5'));
    assert.equal(version(), undefined);
    late.storeResponse(meta('7', 'u2'));
    assert.equal(version(), '7');
  });
});

test('a change counts as own only if the response to a write shows it first', () => {
  const target: ObjectKey = asKey('c:Secret/ns/n');
  const { index, sink, changes } = setUp();
  sink.upsert({ metadata: meta('4') });
  for (const own of [true, false]) {
    const version = own ? 5 : 7;
    using request = index.beginRequest(target, own);
    request.storeResponse(meta(`${version}`));
    sink.upsert({ metadata: meta(`${version}`) });
    sink.upsert({ metadata: meta(`${version + 1}`) });
    request.storeResponse(meta(`${version + 1}`));
  }
  assert.deepEqual(changes, ['->4', '4>5 own', '5>6', '6>7', '7>8']);
});

describe('a feed that keeps few objects of its list', () => {
  it('the watcher does not remember the keys of listed objects that the filter of its feed rejects', () => {
    const { index } = setUp();
    const { sink } = index.feed(() => false);
    assert.equal(sink.upsert({ metadata: meta('5') }), false);
    assert.deepEqual([...index.keys()], []);
  });

  it('the watcher remembers the key of a rejected object if another feed or a write of Keyferry confirms the object', () => {
    const { index, changes, version } = setUp();
    const { sink } = index.feed(() => false);
    using request = index.beginRequest(asKey('c:Secret/ns/n'));
    request.storeResponse(meta('5'));
    assert.equal(sink.upsert({ metadata: meta('5') }), true);
    sink.prune(new Set(['ns/n']), '9');
    assert.equal(version(), '5');
    assert.deepEqual(changes, ['->5']);
  });

  it('the watcher remembers the key of a rejected object while a request for the object runs', () => {
    const { index, version } = setUp();
    const { sink } = index.feed(() => false);
    using request = index.beginRequest(asKey('c:Secret/ns/n'));
    assert.equal(sink.upsert({ metadata: meta('5') }), true);
    sink.prune(new Set(['ns/n']), '9');
    request.storeResponse(meta('5'));
    assert.equal(version(), '5');
  });

  it('a feed no longer confirms an object that its list lacks, even if another feed has a newer version', () => {
    const { index, sink, version } = setUp();
    const other = index.feed();
    sink.upsert({ metadata: meta('5') });
    other.sink.upsert({ metadata: meta('8') });
    sink.prune(new Set(), '7');
    assert.equal(version(), '8');
    other.sink.remove({ metadata: meta('9') });
    assert.equal(version(), undefined);
  });
});

describe('a list with an older version of an object', () => {
  const alarmed: string[] = [];
  const index = new ObjectIndex('c', 'Secret', () => undefined, { onRollback: (key) => alarmed.push(key) });
  const { sink } = index.feed();
  const list = (version: string, ofVersion: string, then?: string): void => {
    sink.upsert({ metadata: meta(version) });
    if (then !== undefined) sink.upsert({ metadata: meta(then) });
    sink.prune(new Set(['ns/n']), ofVersion);
  };

  it('an older version of an object in a list is no rollback if the object changed after the list, or the list also has the newer version', () => {
    sink.upsert({ metadata: meta('8') });
    list('5', '7');
    list('5', '9', '8');
    list('8', '9');
    assert.deepEqual(alarmed, []);
  });

  it('an older version in a list is no rollback if it belongs to another object with the same name', () => {
    sink.upsert({ metadata: meta('8') });
    sink.upsert({ metadata: meta('5', 'u0') });
    sink.prune(new Set(['ns/n']), '9');
    assert.deepEqual(alarmed, []);
  });

  it('an older version of an object in a list is a rollback if the list is newer than the last known change of the object', () => {
    list('5', '9');
    assert.deepEqual(alarmed, ['c:Secret/ns/n']);
  });
});

describe('a list without an object', () => {
  it('a list that lacks an object removes it from the index if only a write of Keyferry before the list confirmed the object', () => {
    const { index, sink, changes, version } = setUp();
    try {
      using request = index.beginRequest(asKey('c:Secret/ns/n'));
      request.storeResponse(meta('5'));
      sink.prune(new Set(), '4');
      assert.equal(version(), '5', 'the list is older than the write');
      sink.prune(new Set(), '6');
      assert.equal(version(), undefined);
      assert.deepEqual(changes, ['->5', '5>-']);
    } finally {
      index.stop();
    }
  });
});

describe('the place that the annotations of an object name', () => {
  const PLACE = 'keyferry.dev/target';
  const placed = (namespace: string, place: string): ObjectMeta => ({
    ...meta('5'),
    namespace,
    annotations: { note: 'x', [PLACE]: place },
  });

  it('the index returns the annotation keyferry.dev/target unchanged, whether it names its own object or another object, even after a change', () => {
    const { index, sink } = setUp();
    const places = { a: 'a/n', b: 'b/n', clone: 'a/n', odd: '' };
    for (const version of ['5', '6']) {
      for (const [namespace, place] of Object.entries(places)) {
        sink.upsert({ metadata: { ...placed(namespace, place), resourceVersion: version } });
        assert.deepEqual(index.get(namespace, 'n')?.annotations, { note: 'x', [PLACE]: place });
      }
    }
    sink.upsert({ metadata: { ...placed('a', 'other/n'), resourceVersion: '7' } });
    assert.equal(index.get('a', 'n')?.annotations[PLACE], 'other/n');
  });

  it('an index that keeps only the annotation keyferry.dev/target shows no other annotation', () => {
    const index = new ObjectIndex('c', 'Secret', () => undefined, { isRead: (key) => key === PLACE || undefined });
    index.feed().sink.upsert({ metadata: placed('a', 'a/n') });
    assert.deepEqual(index.get('a', 'n')?.annotations, { [PLACE]: 'a/n' });
  });
});
