/**
 * What annotations do, on Secrets and on ConfigMaps: suspension, replicate-once, chains and loops of pulls, mistakes.
 * Also types of Secrets, and limits.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { rowsOf } from '../../support/long.ts';
import { waitForStable, staysTrue, waitFor } from '../../support/wait-for.ts';
import { annotate, annotation, KINDS, ReplicatorScene, SETTLE_MS } from './support.ts';

let scene: ReplicatorScene;
let operator: Keyferry;
before(async () => {
  scene = await ReplicatorScene.open({ controllerManager: false });
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  operator = await scene.operator();
});
after(() => scene.close());

for (const kind of rowsOf(KINDS)) {
  describe(`the annotation keyferry.dev/suspend on a ${kind.kind}`, () => {
    it(`keyferry.dev/suspend on a ${kind.kind} stops all writes and deletions of its targets until the annotation is removed`, async () => {
      const users = scene.of(kind);
      const suspend = async (name: string, value: string | null): Promise<void> => {
        await scene.api.patch(users.path(name), { metadata: { annotations: { 'keyferry.dev/suspend': value } } });
      };
      await users.create('source/push', { a: '1' }, { 'replicate-to-namespaces': 'team-a,team-b' });
      await users.create('source/pull', { a: '1' }, { 'replication-allowed': 'true' });
      await users.create('team-a/pull', {}, { 'replicate-from': 'source/pull' });
      for (const name of ['team-a/push', 'team-b/push', 'team-a/pull']) await users.holds(name, { a: '1' });
      for (const name of ['source/push', 'team-a/pull']) await suspend(name, 'true');
      await waitFor(
        async () => {
          const events = await scene.api.list('/api/v1/namespaces/source/events');
          return events.some(
            ({ reason, type, involvedObject: { kind: its } }) =>
              reason === 'Suspended' && type === 'Normal' && its === kind.kind,
          );
        },
        { message: () => operator.output },
      );
      const copy = await users.find('team-b/push');
      assert.equal(copy.metadata.annotations['keyferry.dev/suspend'], undefined);
      for (const name of ['source/push', 'source/pull']) await users.change(name, { a: '2' });
      await users.annotate('source/push', { 'replicate-to-namespaces': 'team-a' });
      await users.stayUnchanged(['team-a/push', 'team-b/push', 'team-a/pull'], 'the targets of suspended rules');
      for (const name of ['source/push', 'team-a/pull']) await suspend(name, null);
      for (const name of ['team-a/push', 'team-a/pull']) await users.holds(name, { a: '2' });
      await users.gone('team-b/push');
    });
  });

  describe(`replicate-once on a ${kind.kind}`, () => {
    it(`if a pulled ${kind.kind} has replicate-once, its data stay until the source has a new replicate-once-version`, async () => {
      const users = scene.of(kind);
      const allowed = { 'replication-allowed': 'true' };
      await users.create('source/once', { a: '1' }, { ...allowed, 'replicate-once': 'true' });
      await users.create('team-a/once', {}, { 'replicate-from': 'source/once' });
      await users.create('source/free', { a: '1' }, allowed);
      await users.create('team-a/once-target', {}, { 'replicate-from': 'source/free', 'replicate-once': 'true' });
      for (const name of ['team-a/once', 'team-a/once-target']) await users.holds(name, { a: '1' });
      for (const name of ['source/once', 'source/free']) await users.change(name, { a: '2' });
      await users.stayUnchanged(['team-a/once', 'team-a/once-target'], 'the frozen copies');
      await users.annotate('source/once', { 'replicate-once-version': 'v2' });
      const renewed = await users.holds('team-a/once', { a: '2' });
      assert.equal(annotation(renewed, 'replicate-once-version'), 'v2');
      await users.annotate('source/once', { 'replication-allowed-namespaces': 'team-.*' });
      await users.becomes(
        'team-a/once',
        (object) => annotation(object, 'replicated-from-allowed') === 'team-.*',
        'notified of the new permission',
      );
      assert.equal(annotation(await users.find('team-a/once-target'), 'replicated-from-origin'), undefined);
      await users.delete('source/once');
      await users.holds('team-a/once', {});
      await users.create('source/once', { a: '3' }, { ...allowed, 'replicate-once': 'true' });
      await users.holds('team-a/once', { a: '3' });
    });

    it(`if a pushing ${kind.kind} has replicate-once, its copies keep their data but get its new permissions, and new copies get the current data`, async () => {
      const users = scene.of(kind);
      await users.create(
        'source/gen',
        { a: '1' },
        { 'replicate-to-namespaces': 'team-a,team-b', 'replicate-once': 'true' },
      );
      await users.holds('team-a/gen', { a: '1' });
      await users.holds('team-b/gen', { a: '1' });
      await users.change('source/gen', { a: '2' });
      await users.annotate('source/gen', {
        'replicate-to-namespaces': 'team-a,team-b,team-c',
        'replication-allowed': 'true',
      });
      await users.holds('team-c/gen', { a: '2' });
      const frozen = await users.becomes(
        'team-a/gen',
        (object) => annotation(object, 'replication-allowed') === 'true',
        'allowed',
      );
      assert.deepEqual(frozen.data, users.data({ a: '1' }));
      assert.equal(annotation(frozen, 'replicate-once'), 'true');
      await users.annotate('source/gen', { 'replicate-once': null });
      await users.holds('team-a/gen', { a: '2' });
      await users.holds('team-b/gen', { a: '2' });
    });
  });

  describe(`${kind.kind}s in chains and loops`, () => {
    it(`in a chain of six ${kind.kind}s, data and permissions are passed on; if one is deleted, those after it are cleared`, async () => {
      const users = scene.of(kind);
      const link = (index: number): string => `team-a/chain-${index}`;
      await users.create(
        link(0),
        { a: '1' },
        { 'replication-allowed': 'true', 'replication-allowed-namespaces': 'team-a' },
      );
      for (let index = 1; index < 6; index += 1) {
        await users.create(link(index), {}, { 'replicate-from': `chain-${index - 1}`, 'replication-allowed': 'true' });
      }
      for (let index = 1; index < 6; index += 1) await users.holds(link(index), { a: '1' });
      const last = await users.find(link(5));
      assert.equal(annotation(last, 'replicated-from-origin'), link(0));
      assert.equal(annotation(last, 'replicated-from-allowed'), 'team-a');
      await users.create('team-b/outside', { own: 'x' }, { 'replicate-from': link(5) });
      await users.warning('team-b/outside', 'Denied');
      await users.change(link(0), { a: '2' });
      for (let index = 1; index < 6; index += 1) await users.holds(link(index), { a: '2' });
      await users.delete(link(2));
      for (let index = 3; index < 6; index += 1) await users.holds(link(index), {});
      await users.holds(link(1), { a: '2' });
    });

    it(`if ${kind.kind}s pull from each other in a loop, they are not written, also if the loop is closed after data was copied`, async () => {
      const users = scene.of(kind);
      const allowed = { 'replication-allowed': 'true' };
      await users.create('team-a/loop-1', { a: '1' }, { ...allowed, 'replicate-from': 'loop-2' });
      await users.create('team-a/loop-2', { b: '1' }, { ...allowed, 'replicate-from': 'loop-1' });
      await users.warning('team-a/loop-2', 'Denied');
      await users.stayUnchanged(['team-a/loop-1', 'team-a/loop-2'], 'a loop');
      await users.create('team-a/late-1', { a: '1' }, allowed);
      await users.create('team-a/late-2', {}, { ...allowed, 'replicate-from': 'late-1', 'replicate-once': 'true' });
      await users.create('team-a/late-3', {}, { ...allowed, 'replicate-from': 'late-2' });
      await users.holds('team-a/late-3', { a: '1' });
      await users.annotate('team-a/late-1', { 'replicate-from': 'late-3' });
      const names = ['team-a/late-1', 'team-a/late-2', 'team-a/late-3'];
      const versions = async (): Promise<string> =>
        (await Promise.all(names.map(async (name) => await users.version(name)))).join();
      await waitForStable(versions, SETTLE_MS, 'the end of the writes in the loop');
    });
  });

  describe(`an annotation of a ${kind.kind} that is invalid`, () => {
    it(`while a ${kind.kind} has an invalid annotation, none of its copies is written or deleted`, async () => {
      const users = scene.of(kind);
      const good: Record<string, string | null> = {
        'replicate-to': 'team-b/kept',
        'replicate-to-namespaces': null,
        'replicate-once': null,
        'replicate-too': null,
        'replication-allowed-namespaces': null,
      };
      await users.create('source/typo', { a: '1' }, { 'replicate-to': 'team-b/kept' });
      await users.holds('team-b/kept', { a: '1' });
      for (const [bad, reason] of [
        [{ 'replicate-to': 'UPPER' }, 'IllFormed'],
        [{ 'replicate-to': 'a/b/c' }, 'IllFormed'],
        [{ 'replicate-to-namespaces': '(((' }, 'IllFormed'],
        [{ 'replicate-to-namespaces': '[abc,ghi]' }, 'IllFormed'],
        [{ 'replicate-once': 'maybe' }, 'IllFormed'],
        [{ 'replication-allowed-namespaces': '*' }, 'IllFormed'],
        [{ 'replicate-too': 'x' }, 'UnknownAnnotation'],
        [{ 'replicate-to': null, 'replicate-too': 'x' }, 'UnknownAnnotation'],
      ] as const) {
        const { metadata } = await users.find('team-b/kept');
        await users.annotate('source/typo', bad);
        const { message } = await waitFor(
          async () => {
            const events: Json[] = await scene.api.list('/api/v1/namespaces/source/events');
            const [annotationName] = Object.keys(bad).slice(-1);
            return events.find(
              (event) =>
                event.involvedObject.name === 'typo' &&
                event.involvedObject.kind === kind.kind &&
                event.reason === reason &&
                event.message.includes(`k8s-replicator/${annotationName}`),
            );
          },
          { message: `a warning of ${JSON.stringify(bad)}` },
        );
        assert.ok(message.length < 1024);
        await users.change('source/typo', { a: `${reason} ${JSON.stringify(bad)}` });
        await staysTrue(
          async () => (await users.version('team-b/kept')) === metadata.resourceVersion,
          300,
          `the copy under ${JSON.stringify(bad)}`,
        );
        await users.annotate('source/typo', good);
        await users.holds('team-b/kept', { a: `${reason} ${JSON.stringify(bad)}` });
      }
    });

    it(`if a copy is deleted while its ${kind.kind} has an invalid annotation, the claim on the copy ends`, async () => {
      const users = scene.of(kind);
      const failing = async (): Promise<number> => {
        return (await operator.metric('keyferry_claims', { system: 'replicator', state: 'error' })) ?? 0;
      };
      await users.create('source/left', { a: '1' }, { 'replicate-to': 'team-b/left,team-c/left' });
      for (const name of ['team-b/left', 'team-c/left']) await users.holds(name, { a: '1' });
      await waitForStable(async () => String(await failing()), SETTLE_MS, 'the failures of other rules');
      const before = await failing();
      await users.annotate('source/left', { 'replicate-to': 'NOT GOOD' });
      const becomes = async (count: number): Promise<unknown> =>
        await waitFor(async () => (await failing()) - before === count, { message: `${count} claims more` });
      await becomes(2);
      await users.delete('team-b/left');
      await becomes(1);
      await users.delete('source/left');
    });

    it(`an event reports an annotation of a ${kind.kind} that looks like a glob and selects no namespace`, async () => {
      const users = scene.of(kind);
      await users.create('source/misread', { a: '1' }, { 'replicate-to': 'project-*/x' });
      const found = async (): Promise<Json> => {
        const events = await scene.api.list('/api/v1/namespaces/source/events');
        return events.find(({ involvedObject: { kind: on, name } }) => on === kind.kind && name === 'misread');
      };
      const { type, reason } = await waitFor(found, { message: 'the event' });
      assert.deepEqual([type, reason], ['Warning', 'MisreadPattern']);
    });

    it(`if a pulling ${kind.kind} or its source gets an invalid annotation, no data is cleared`, async () => {
      const users = scene.of(kind);
      await users.create('source/fine', { a: '1' }, { 'replication-allowed': 'true' });
      await users.create('team-a/fine', {}, { 'replicate-from': 'source/fine' });
      await users.holds('team-a/fine', { a: '1' });
      for (const [on, bad] of [
        ['source/fine', { 'replication-allowed': 'yes' }],
        ['source/fine', { 'replication-allowed-namespaces': '(((' }],
        ['source/fine', { 'replicate-once': 'maybe' }],
        ['source/fine', { nonsense: 'x' }],
        ['team-a/fine', { 'replicate-once': 'maybe' }],
        ['team-a/fine', { nonsense: 'x' }],
        ['team-a/fine', { 'replicate-from': 'a/b/c' }],
        ['team-a/fine', { 'replicate-from': 'team-a/fine' }],
        ['team-a/fine', { 'replicate-from': null }],
      ] as const) {
        await users.annotate(on, bad);
        await staysTrue(
          async () => Object.keys((await users.find('team-a/fine')).data).length === 1,
          200,
          `the data under ${JSON.stringify(bad)}`,
        );
        await users.annotate('source/fine', {
          'replication-allowed': 'true',
          'replication-allowed-namespaces': null,
          'replicate-once': null,
          nonsense: null,
        });
        await users.annotate('team-a/fine', {
          'replicate-from': 'source/fine',
          'replicate-once': null,
          nonsense: null,
        });
        await users.change('source/fine', { a: JSON.stringify(bad) });
        await users.holds('team-a/fine', { a: JSON.stringify(bad) });
      }
    });

    it(`long lists and slow patterns in annotations of a ${kind.kind} do not delay other copies`, async () => {
      const users = scene.of(kind);
      const list = Array.from({ length: 2000 }, (_, index) => `n${index}`).join(',');
      await users.create('source/long', { a: '1' }, { 'replicate-to-namespaces': `${list},team-a` });
      await users.create('source/hostile', { a: '1' }, { 'replicate-to-namespaces': '(a+)+b,(.*)*x,team-a' });
      await users.create('source/huge', { a: '1' }, { 'replicate-to-namespaces': '((a|b){1,500}c){1,500}' });
      await users.holds('team-a/long', { a: '1' });
      await users.holds('team-a/hostile', { a: '1' });
      await users.warning('source/huge', 'IllFormed');
    });
  });
}

describe('Secrets with a type', () => {
  it('copies have the type of their source, are replaced if the type changes, and are cleared to the data that the type requires', async () => {
    const users = scene.of(KINDS[0]!);
    const tls = { 'tls.crt': 'c', 'tls.key': 'k' };
    const more = { type: 'kubernetes.io/tls' };
    await users.create('source/typed', tls, { 'replicate-to': 'team-a/typed', 'replication-allowed': 'true' }, more);
    assert.equal((await users.holds('team-a/typed', tls)).type, more.type);
    await users.create('team-b/typed', tls, { 'replicate-from': 'source/typed' }, more);
    await users.becomes(
      'team-b/typed',
      (object) => annotation(object, 'replicated-from-version') !== undefined,
      'filled',
    );
    await users.delete('source/typed');
    const cleared = await users.becomes('team-b/typed', (object) => object.data['tls.crt'] === '', 'cleared');
    assert.deepEqual(cleared.data, { 'tls.crt': '', 'tls.key': '' });
    await users.gone('team-a/typed');
    await users.create('source/typed', { any: '1' }, { 'replicate-to': 'team-a/typed' });
    assert.equal((await users.holds('team-a/typed', { any: '1' })).type, 'Opaque');
  });

  it("a Helm chart's random password is copied one time, kept after an upgrade, and replaced with a new replicate-once-version", async () => {
    const users = scene.of(KINDS[0]!);
    const apply = async (password: string, login: string): Promise<void> => {
      await scene.api.apply({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: {
          name: 'app-source',
          namespace: 'team-a',
          annotations: annotate({
            'replicate-to': 'app',
            'replicate-once': 'true',
            'replicate-once-version': `v0:login=${login}`,
          }),
        },
        data: users.data({ login, password }),
      });
    };
    await apply('first', 'admin');
    await users.holds('team-a/app', { login: 'admin', password: 'first' });
    await apply('second', 'admin');
    await users.stayUnchanged(['team-a/app'], 'the copy after an upgrade');
    await users.holds('team-a/app', { login: 'admin', password: 'first' });
    await apply('third', 'root');
    await users.holds('team-a/app', { login: 'root', password: 'third' });
  });
});

describe('limits and errors of the replicator', () => {
  it('a ConfigMap of 1 MiB is pushed with its binaryData', async () => {
    const users = scene.of(KINDS[1]!);
    const binaryData = { blob: Buffer.alloc(700_000, 7).toString('base64') };
    await users.create('source/large', { text: 'x' }, { 'replicate-to': 'team-a/large' }, { binaryData });
    assert.deepEqual((await users.holds('team-a/large', { text: 'x' })).binaryData, binaryData);
  });

  it('if a quota refuses a copy, an event reports it, and other namespaces get their copies', async () => {
    const users = scene.of(KINDS[1]!);
    await scene.namespaces('full');
    await scene.api.create({
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: 'none', namespace: 'full' },
      spec: { hard: { configmaps: '0' } },
    });
    // No quota controller runs here, so the test writes the status of the quota.
    await scene.api.patch('/api/v1/namespaces/full/resourcequotas/none/status', {
      status: { hard: { configmaps: '0' }, used: { configmaps: '0' } },
    });
    await users.create('source/quota', { a: '1' }, { 'replicate-to-namespaces': 'full,team-a' });
    await users.holds('team-a/quota', { a: '1' });
    const { message } = await users.warning('source/quota', 'Refused');
    assert.match(message, /full\/quota/);
    await scene.api.delete('/api/v1/namespaces/full/resourcequotas/none');
    await users.holds('full/quota', { a: '1' });
  });

  it('if several sources have one target, the oldest source is copied; when it is deleted, the next one takes over', async () => {
    const users = scene.of(KINDS[1]!);
    const { metadata } = await users.create('team-a/first', { by: 'first' }, { 'replicate-to': 'team-c/wanted' });
    await users.holds('team-c/wanted', { by: 'first' });
    // `creationTimestamp` has whole seconds, and within one second the uid decides. So the second source is created at
    // least 1 s later.
    await waitFor(() => Date.now() >= Date.parse(metadata.creationTimestamp) + 1000);
    await users.create('team-b/second', { by: 'second' }, { 'replicate-to': 'team-c/wanted' });
    await users.warning('team-b/second', 'Conflict');
    await users.holds('team-c/wanted', { by: 'first' });
    await users.delete('team-a/first');
    await users.holds('team-c/wanted', { by: 'second' });
  });
});
