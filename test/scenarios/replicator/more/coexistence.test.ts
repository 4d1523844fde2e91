/** Keyferry and k8s-replicator on one cluster. Also namespaces that are being deleted, types, sizes and prefixes. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import type { Keyferry } from '../../../support/keyferry.ts';
import { staysTrue, waitFor } from '../../../support/wait-for.ts';
import type { WatchEvent } from '../../../support/watcher.ts';
import { FakeReplicator } from '../fake-replicator.ts';
import { annotation, type KindScene, KINDS, ReplicatorScene, SETTLE_MS } from '../support.ts';

let scene: ReplicatorScene;
let secrets: KindScene;
let maps: KindScene;
before(async () => {
  // Without a controller manager, a deleted namespace never leaves the phase Terminating.
  scene = await ReplicatorScene.open({ controllerManager: false });
  await scene.namespaces('source', 'team-a', 'team-b');
  secrets = scene.of(KINDS[0]!);
  maps = scene.of(KINDS[1]!);
});
after(() => scene.close());

describe('the replicator and the original on one cluster', () => {
  const targets = ['team-a/both', 'team-b/both', 'team-a/pulled-both'] as const;

  it('if Keyferry and k8s-replicator run on one cluster, they make the same copies, delete none, and stop writing', async () => {
    const events: WatchEvent[] = [];
    const watch = await scene.api.watch('/api/v1/secrets', (event) => events.push(event));
    try {
      await using original = await FakeReplicator.start(scene.api);
      const operator = await scene.operator();
      const allowed = { 'replication-allowed': 'true' };
      await secrets.create('source/both', { a: '0' }, { ...allowed, 'replicate-to': 'team-a/both,team-b/both' });
      await secrets.create('team-a/pulled-both', {}, { 'replicate-from': 'source/both' });
      const changes = 10;
      for (let n = 1; n <= changes; n += 1) {
        await secrets.change('source/both', { a: String(n) });
        for (const target of targets) await secrets.holds(target, { a: String(n) });
      }
      // The metadata of the source change, but its data do not. The original records the new version on the copies, and
      // Keyferry keeps that record.
      await scene.api.patch(secrets.path('source/both'), { metadata: { labels: { some: 'label' } } });
      const version = await secrets.version('source/both');
      for (const target of targets) {
        const atVersion = (object: Json): boolean => annotation(object, 'replicated-from-version') === version;
        await secrets.becomes(target, atVersion, 'at the version of its source');
      }
      await secrets.stayUnchanged(targets, 'the targets of two controllers');
      for (const target of targets) {
        const about = events.filter(
          ({ object }) => `${object?.metadata.namespace}/${object?.metadata.name}` === target,
        );
        assert.deepEqual(
          about.filter(({ type }) => type === 'DELETED'),
          [],
          `${target} was deleted`,
        );
        assert.ok(about.length <= 3 * (changes + 2), `${target} was written ${about.length} times`);
      }
      assert.ok(original.writes > 0, 'the other has a hand in it');
      await operator.stop();
    } finally {
      await watch.stop();
    }
  });

  it('if k8s-replicator starts after Keyferry, it writes nothing, because all copies are right', async () => {
    const operator = await scene.operator();
    await secrets.change('source/both', { a: 'by us' });
    for (const target of targets) await secrets.holds(target, { a: 'by us' });
    await operator.stop();
    await using original = await FakeReplicator.start(scene.api);
    await secrets.stayUnchanged(targets, 'the targets of the original');
    assert.equal(original.writes, 0);
  });

  it('if Keyferry and k8s-replicator run on one cluster, replicate-once copies stay frozen, and each new version is written at most once', async () => {
    await using original = await FakeReplicator.start(scene.api);
    const operator = await scene.operator();
    const copies = ['team-a/frozen', 'team-b/frozen'];
    const once = { 'replicate-once': 'true', 'replicate-once-version': 'v0', 'replicate-to': copies.join() };
    await secrets.create('source/frozen', { password: '0' }, once);
    for (const copy of copies) {
      await secrets.holds(copy, { password: '0' });
      // Keyferry adds the annotation keyferry.dev/target to a copy that the original created first.
      const placed = ({ metadata }: Json): boolean => metadata.annotations['keyferry.dev/target'] === copy;
      await secrets.becomes(copy, placed, 'a copy with its place');
    }
    const writesBefore = original.writes;
    for (const round of [1, 2, 3]) {
      await secrets.change('source/frozen', { password: String(round) });
      await secrets.stayUnchanged(copies, 'the frozen copies');
      await secrets.annotate('source/frozen', { 'replicate-once-version': `v${round}` });
      for (const copy of copies) {
        const { metadata } = await secrets.holds(copy, { password: String(round) });
        assert.equal(metadata.annotations['k8s-replicator/replicate-once-version'], `v${round}`);
      }
    }
    await secrets.stayUnchanged(copies, 'the frozen copies');
    assert.ok(original.writes - writesBefore <= 3 * copies.length, 'it writes at most once for each version');
    await operator.stop();
  });

  it('if Keyferry starts after k8s-replicator, it writes nothing, because all copies are right', async () => {
    {
      await using original = await FakeReplicator.start(scene.api);
      await secrets.change('source/both', { a: 'by the original' });
      for (const target of targets) await secrets.holds(target, { a: 'by the original' });
      // The test sees the copies before the original receives the server's response and counts the write.
      await waitFor(() => original.writes >= targets.length, { message: 'the writes of the original' });
    }
    const versions = await Promise.all(targets.map((target) => secrets.version(target)));
    const operator = await scene.operator();
    await staysTrue(
      async () => {
        const now = await Promise.all(targets.map((target) => secrets.version(target)));
        return now.every((version, index) => version === versions[index]);
      },
      SETTLE_MS,
      'the copies of the original',
    );
    await secrets.delete('source/both');
    await secrets.gone('team-a/both');
    await secrets.gone('team-b/both');
    await secrets.holds('team-a/pulled-both', {});
    await operator.stop();
  });
});

describe('limits and errors of the replicator and the original', () => {
  let operator: Keyferry;
  before(async () => {
    operator = await scene.operator();
  });
  after(() => operator.stop());

  it('a namespace that stays in Terminating gets no copy and no event, and does not delay other namespaces', async () => {
    await scene.namespaces('end-one', 'end-two');
    await maps.create('source/end', { a: '1' }, { 'replicate-to-namespaces': 'end-.*' });
    await maps.create('source/end-named', { a: '1' }, { 'replicate-to': 'end-one/named,end-two/named' });
    for (const name of ['end-one/end', 'end-two/end', 'end-one/named']) await maps.holds(name, { a: '1' });
    await scene.api.delete('/api/v1/namespaces/end-one');
    assert.equal((await scene.api.get('/api/v1/namespaces/end-one')).status.phase, 'Terminating');
    await maps.change('source/end', { a: '2' });
    await maps.change('source/end-named', { a: '2' });
    await maps.holds('end-two/end', { a: '2' });
    await maps.holds('end-two/named', { a: '2' });
    await maps.create('source/end-late', { a: '1' }, { 'replicate-to': 'end-one/late,end-two/late' });
    await maps.holds('end-two/late', { a: '1' });
    await staysTrue(async () => (await maps.find('end-one/late')) === undefined, SETTLE_MS, 'nothing comes there');
    const events = await scene.api.list('/api/v1/namespaces/source/events');
    const reported = events.filter(({ involvedObject }) => String(involvedObject.name).startsWith('end'));
    assert.deepEqual(reported, [], 'a terminating namespace causes no event');
  });

  it('a ConfigMap of 1 MiB is pushed and pulled', async () => {
    const text = 'x'.repeat(1024 * 1024);
    const asked = { 'replicate-to': 'team-a/mebibyte', 'replication-allowed': 'true' };
    await maps.create('source/mebibyte', {}, asked, { data: { text } });
    await maps.create('team-b/mebibyte', {}, { 'replicate-from': 'source/mebibyte' });
    for (const name of ['team-a/mebibyte', 'team-b/mebibyte']) {
      await maps.becomes(name, ({ data }) => data?.text === text, 'filled with 1 MiB');
    }
    await maps.stayUnchanged(['team-a/mebibyte', 'team-b/mebibyte'], 'the copies');
  });

  it('an object with an unknown annotation is not pushed, and an event names the annotation', async () => {
    await secrets.create('source/unknown', { a: '1' }, { 'replicate-to': 'team-b/unknown', 'replicate-too': 'x' });
    const { message } = await secrets.warning('source/unknown', 'UnknownAnnotation');
    assert.match(message, /replicate-too/);
    assert.equal(await secrets.find('team-b/unknown'), undefined);
  });

  const CLEARS: readonly (readonly [string, Readonly<Record<string, string>>, (data: Json) => void])[] = [
    ['dockercfg', { '.dockercfg': '{"a":{}}' }, (data) => assert.deepEqual(data, { '.dockercfg': '{}' })],
    [
      'dockerconfigjson',
      { '.dockerconfigjson': '{"auths":{}}' },
      (data) => assert.deepEqual(data, { '.dockerconfigjson': '{}' }),
    ],
    ['ssh-auth', { 'ssh-privatekey': 'k' }, (data) => assert.deepEqual(data, { 'ssh-privatekey': 'empty' })],
    [
      'basic-auth',
      { username: 'u', password: 'p' },
      ({ username, password, ...more }) => {
        assert.deepEqual([username, more], ['', {}]);
        assert.match(password, /^[A-Za-z0-9]{128}$/);
      },
    ],
  ];
  for (const [type, values, assertCleared] of CLEARS) {
    it(`if a pulled Secret of type ${type} loses its permission, it is cleared one time, to the least data that the server accepts`, async () => {
      const encoded = Object.fromEntries(Object.entries(values).map(([key, text]) => [key, secrets.kind.encode(text)]));
      const more = { type: `kubernetes.io/${type}`, data: encoded };
      await secrets.create(`source/${type}`, {}, { 'replication-allowed': 'true' }, more);
      await secrets.create(`team-a/${type}`, {}, { 'replicate-from': `source/${type}` }, more);
      const isFilled = (object: Json): boolean => annotation(object, 'replicated-from-version') !== undefined;
      await secrets.becomes(`team-a/${type}`, isFilled, 'filled');
      await secrets.annotate(`source/${type}`, { 'replication-allowed': 'false' });
      const { data } = await secrets.becomes(`team-a/${type}`, (object) => !isFilled(object), 'cleared');
      assertCleared(
        Object.fromEntries(
          Object.entries(data).map(([key, value]) => [key, Buffer.from(String(value), 'base64').toString()]),
        ),
      );
      await secrets.stayUnchanged([`team-a/${type}`], 'the cleared target');
    });
  }
});

describe('flags of the replicator and the original', () => {
  it('with --ignore-unknown, a Secret with an unknown annotation is pushed', async () => {
    await using own = new AsyncDisposableStack();
    const other = own.adopt(await ReplicatorScene.open({ controllerManager: false }), (opened) => opened.close());
    await other.namespaces('a', 'b');
    await other.operator(['-ignore-unknown']);
    const users = other.of(KINDS[0]!);
    await users.create('a/unknown', { a: '1' }, { 'replicate-to': 'b/unknown', 'replicate-too': 'x' });
    await users.holds('b/unknown', { a: '1' });
    await users.annotate('b/unknown', { 'by-another': 'x' });
    await users.change('a/unknown', { a: '2' });
    await users.holds('b/unknown', { a: '2' });
  });

  it('with an empty --annotations-prefix, annotations without a prefix count, and annotations with another name are ignored', async () => {
    await using own = new AsyncDisposableStack();
    const other = own.adopt(await ReplicatorScene.open({ controllerManager: false }), (opened) => opened.close());
    await other.namespaces('a', 'b');
    await other.operator(['-annotations-prefix=']);
    const users = other.of(KINDS[0]!);
    await users.create('a/bare', { a: '1' });
    await users.create('b/pulls', {});
    await other.api.patch(users.path('a/bare'), {
      metadata: { annotations: { 'replicate-to': 'b/bare', 'replication-allowed': 'true', unrelated: 'x' } },
    });
    await other.api.patch(users.path('b/pulls'), { metadata: { annotations: { 'replicate-from': 'a/bare' } } });
    const copy = await users.holds('b/bare', { a: '1' });
    assert.equal(copy.metadata.annotations['replicated-by'], 'a/bare');
    await users.holds('b/pulls', { a: '1' });
    await users.create('a/prefixed', { a: '1' }, { 'replicate-to': 'b/prefixed' });
    await users.change('a/bare', { a: '2' });
    await users.holds('b/bare', { a: '2' });
    assert.equal(await users.find('b/prefixed'), undefined);
    await other.api.patch(users.path('a/bare'), { metadata: { annotations: { 'replicate-to': null } } });
    await users.gone('b/bare');
  });
});
