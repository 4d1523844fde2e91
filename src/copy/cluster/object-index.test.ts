import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ObjectMeta } from '../../kube/api.ts';
import { ObjectIndex } from './object-index.ts';

const meta = (resourceVersion: string, uid = 'u1'): ObjectMeta => ({
  name: 'n',
  namespace: 'ns',
  uid,
  resourceVersion,
  creationTimestamp: '2024-01-01T00:00:00Z',
});

function setUp() {
  const changes: string[] = [];
  const index = new ObjectIndex('c', 'Secret', (_, before, after) =>
    changes.push(`${before?.resourceVersion ?? '-'}>${after?.resourceVersion ?? '-'}`),
  );
  const { sink } = index.feed();
  return { index, sink, changes, version: () => index.get('ns', 'n')?.resourceVersion };
}

describe('an answer to one of our requests', () => {
  it('is taken in before the watch brings it, and once', () => {
    const { index, sink, changes, version } = setUp();
    using answer = index.expect('ns', 'n');
    answer.learn(meta('5'));
    assert.equal(version(), '5');
    sink.upsert({ metadata: meta('5') }, false);
    assert.deepEqual(changes, ['->5']);
    sink.remove({ metadata: meta('6') });
    assert.equal(version(), undefined);
  });

  it('is out of date when the watch was faster and has seen the object go', () => {
    const { index, sink, changes, version } = setUp();
    using answer = index.expect('ns', 'n');
    sink.upsert({ metadata: meta('5') }, false);
    sink.remove({ metadata: meta('6') });
    answer.learn(meta('5'));
    assert.equal(version(), undefined);
    assert.deepEqual(changes, ['->5', '5>-']);
  });

  it('is out of date when a list that is newer does not name the object', () => {
    const { index, sink, version } = setUp();
    using answer = index.expect('ns', 'n');
    sink.prune(new Set(), '9');
    answer.learn(meta('5'));
    assert.equal(version(), undefined);
  });

  it('counts when what went is older, or went before the request', () => {
    const { index, sink, version } = setUp();
    sink.remove({ metadata: meta('9') });
    using answer = index.expect('ns', 'n');
    sink.prune(new Set(), '3');
    sink.remove({ metadata: meta('4', 'u0') });
    answer.learn(meta('5'));
    assert.equal(version(), '5');
  });

  it('is judged by its own time, when several are awaited', () => {
    const { index, sink, version } = setUp();
    using early = index.expect('ns', 'n');
    sink.remove({ metadata: meta('6') });
    using late = index.expect('ns', 'n');
    early.learn(meta('5'));
    assert.equal(version(), undefined);
    late.learn(meta('7', 'u2'));
    assert.equal(version(), '7');
  });
});

describe('a list of which a feed keeps little', () => {
  it('need not name what is no business of anybody here', () => {
    const { index } = setUp();
    const { sink } = index.feed(() => false);
    assert.equal(sink.upsert({ metadata: meta('5') }, true), false);
    assert.deepEqual([...index.keys()], []);
  });

  it('names what another feed or a write of ours vouches for, which its end would refute else', () => {
    const { index, changes, version } = setUp();
    const { sink } = index.feed(() => false);
    using answer = index.expect('ns', 'n');
    answer.learn(meta('5'));
    assert.equal(sink.upsert({ metadata: meta('5') }, true), true);
    sink.prune(new Set(['ns/n']), '9');
    assert.equal(version(), '5');
    assert.deepEqual(changes, ['->5']);
  });

  it('names what an answer is awaited of', () => {
    const { index, version } = setUp();
    const { sink } = index.feed(() => false);
    using answer = index.expect('ns', 'n');
    assert.equal(sink.upsert({ metadata: meta('5') }, true), true);
    sink.prune(new Set(['ns/n']), '9');
    answer.learn(meta('5'));
    assert.equal(version(), '5');
  });

  it('no longer vouches for what it does not name, also where another feed knows it to be newer', () => {
    const { index, sink, version } = setUp();
    const other = index.feed();
    sink.upsert({ metadata: meta('5') }, false);
    other.sink.upsert({ metadata: meta('8') }, false);
    sink.prune(new Set(), '7');
    assert.equal(version(), '8');
    other.sink.remove({ metadata: meta('9') });
    assert.equal(version(), undefined);
  });
});

describe('a list that has an object as it was before', () => {
  const alarmed: string[] = [];
  const index = new ObjectIndex('c', 'Secret', () => undefined, { onRollback: (key) => alarmed.push(key) });
  const { sink } = index.feed();
  const list = (version: string, ofVersion: string, then?: string): void => {
    sink.upsert({ metadata: meta(version) }, true);
    if (then !== undefined) sink.upsert({ metadata: meta(then) }, true);
    sink.prune(new Set(['ns/n']), ofVersion);
  };

  it('is no news where the object changed after the list, or the change comes with it', () => {
    sink.upsert({ metadata: meta('8') }, false);
    list('5', '7');
    list('5', '9', '8');
    list('8', '9');
    assert.deepEqual(alarmed, []);
  });

  it('nor where it is another object', () => {
    sink.upsert({ metadata: meta('8') }, false);
    sink.upsert({ metadata: meta('5', 'u0') }, true);
    sink.prune(new Set(['ns/n']), '9');
    assert.deepEqual(alarmed, []);
  });

  it('says that the server has gone back where the list should have had the change', () => {
    list('5', '9');
    assert.deepEqual(alarmed, ['c:Secret/ns/n']);
  });
});

describe('a list', () => {
  it('that is newer than a write of ours, and does not name it, ends what only that write vouched for', () => {
    const { index, sink, changes, version } = setUp();
    try {
      using answer = index.expect('ns', 'n');
      answer.learn(meta('5'));
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
