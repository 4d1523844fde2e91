/**
 * What the engine does for the rules of every system that copies annotated objects: one story for each, in one process.
 * What one system does in another way than the others is in its own folder.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { rowsOf } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { AnnotatedScene, KINDS } from './support.ts';
import { CLUSTER, SYSTEMS, without } from './systems.ts';

const ARGS = ['--source-grace=1s', `--config-syncer-cluster-name=${CLUSTER}`];

let scene: AnnotatedScene;
let operator: Keyferry;
before(async () => {
  scene = await AnnotatedScene.open();
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  operator = await scene.operator(ARGS);
});
after(() => scene.close());

describe('copies', { concurrency: true }, () => {
  for (const { name: system, ...words } of SYSTEMS)
    describe(system, { concurrency: 4 }, () => {
      const { push } = words;

      for (const kind of rowsOf(KINDS))
        it(`a ${kind.kind} has a copy in each namespace that its annotation names, which follows it and goes with the rule`, async () => {
          const users = scene.of(kind);
          const isSecret = kind.kind === 'Secret';
          const [name, binaryData] = [`${system}-pushed`, { raw: 'AAEC' }];
          const content = isSecret ? { type: 'my/type' } : { binaryData };
          const metadata = { labels: { app: 'x', 'argocd.argoproj.io/instance': 'y' } };
          const given = { ...push('team-a', 'team-b'), 'my.org/note': 'x', 'meta.helm.sh/release-name': 'r' };
          const more = { metadata, immutable: false, ...content };
          const source = await scene.put(users, `source/${name}`, { a: '1', b: '1' }, given, more);
          const made = await users.holds(`team-a/${name}`, { a: '1', b: '1' });
          const { labels, annotations, uid, ownerReferences, finalizers } = made.metadata;
          assert.deepEqual(labels, words.labels(name));
          assert.deepEqual(Object.keys(annotations).toSorted(), words.annotations.toSorted());
          assert.deepEqual(
            [annotations['keyferry.dev/target'], words.version(made)],
            [`team-a/${name}`, source.metadata.resourceVersion],
          );
          assert.deepEqual([ownerReferences, finalizers, made.immutable], [undefined, undefined, undefined]);
          assert.deepEqual(
            [made.type, made.binaryData],
            [isSecret ? 'my/type' : undefined, isSecret ? undefined : binaryData],
          );
          await users.change(`source/${name}`, { c: '2' });
          for (const namespace of ['team-a', 'team-b']) await users.holds(`${namespace}/${name}`, { c: '2' });
          const changed = await users.find(`team-a/${name}`);
          assert.deepEqual(
            [changed.metadata.uid, words.version(changed)],
            [uid, await users.version(`source/${name}`)],
          );
          await users.change(`team-a/${name}`, { c: 'edited' });
          await users.holds(`team-a/${name}`, { c: '2' });
          await users.delete(`team-b/${name}`);
          await users.holds(`team-b/${name}`, { c: '2' });
          await scene.say(users, `source/${name}`, push('team-b', 'team-c'));
          await users.gone(`team-a/${name}`);
          await users.holds(`team-c/${name}`, { c: '2' });
          await scene.say(users, `source/${name}`, without(push()));
          for (const namespace of ['team-b', 'team-c']) await users.gone(`${namespace}/${name}`);
          await scene.say(users, `source/${name}`, push('team-a'));
          await users.holds(`team-a/${name}`, { c: '2' });
          assert.equal((await users.find(`source/${name}`)).metadata.uid, source.metadata.uid);
          await users.delete(`source/${name}`);
          await users.gone(`team-a/${name}`);
        });

      it('objects of users stay: one in the place of a copy, a clone of a copy, and the source', async () => {
        const { secrets } = scene;
        const name = `${system}-taken`;
        const foreign = await secrets.create(
          `team-a/${name}`,
          { own: '1' },
          {},
          { metadata: { labels: { my: 'own' } } },
        );
        const source = await scene.put(secrets, `source/${name}`, { a: '1' }, push('source', 'team-a', 'team-b'));
        const { message, source: by } = await secrets.warning(`source/${name}`, 'Conflict');
        assert.match(message, new RegExp(`team-a/${name}`));
        assert.equal(by.component, words.component);
        const { kind, type, data, metadata } = await secrets.holds(`team-b/${name}`, { a: '1' });
        const { labels, annotations } = metadata;
        const marks = { namespace: 'team-c', name, labels, annotations };
        const clone = await scene.api.create({ apiVersion: 'v1', kind, type, data, metadata: marks });
        await secrets.change(`source/${name}`, { a: '2' });
        await secrets.holds(`team-b/${name}`, { a: '2' });
        await scene.say(secrets, `source/${name}`, push('source', 'team-a', 'team-b', 'team-c'));
        await secrets.change(`source/${name}`, { a: '3' });
        await secrets.holds(`team-b/${name}`, { a: '3' });
        assert.equal(await secrets.version(`team-c/${name}`), clone.metadata.resourceVersion);
        await scene.say(secrets, `source/${name}`, push('team-b'));
        await secrets.stayUnchanged([`source/${name}`, `team-a/${name}`, `team-c/${name}`], 'users have these');
        assert.equal((await secrets.find(`source/${name}`)).metadata.uid, source.metadata.uid);
        // A place that is free at last gets its copy.
        await scene.say(secrets, `source/${name}`, push('team-a', 'team-b', 'team-c'));
        await secrets.delete(`team-c/${name}`);
        await secrets.holds(`team-c/${name}`, { a: '3' });
        await secrets.delete(`source/${name}`);
        for (const namespace of ['team-b', 'team-c']) await secrets.gone(`${namespace}/${name}`);
        assert.equal(await secrets.version(`team-a/${name}`), foreign.metadata.resourceVersion);
      });

      const { byLabels } = words;
      if (byLabels !== undefined)
        it('a namespace that appears, or gets or loses a label, gets or loses its copies', async () => {
          const { secrets } = scene;
          const later = `later-${system}`;
          await scene.put(secrets, `source/${system}-every`, { a: '1' }, push('team-a', later));
          await scene.put(secrets, `source/${system}-some`, { a: '1' }, byLabels(`${system} in (yes,true)`));
          await scene.namespaces(later);
          await secrets.holds(`${later}/${system}-every`, { a: '1' });
          await scene.label(later, { [system]: 'yes' });
          await scene.label('source', { [system]: 'yes' });
          const { metadata } = await secrets.find(`source/${system}-some`);
          await secrets.holds(`${later}/${system}-some`, { a: '1' });
          assert.equal(await secrets.find(`team-a/${system}-some`), undefined);
          for (const namespace of [later, 'source']) await scene.label(namespace, { [system]: 'no' });
          await secrets.gone(`${later}/${system}-some`);
          await secrets.holds(`${later}/${system}-every`, { a: '1' });
          assert.equal(await secrets.version(`source/${system}-some`), metadata.resourceVersion);
        });

      it('values that nobody can read delete no copy, and are events', async () => {
        const { secrets } = scene;
        const name = `${system}-bad`;
        await scene.put(secrets, `source/${name}`, { a: '1' }, push('team-a'));
        await secrets.holds(`team-a/${name}`, { a: '1' });
        await scene.say(secrets, `source/${name}`, words.bad);
        await secrets.warning(`source/${name}`, 'IllFormed');
        await secrets.change(`source/${name}`, { a: '2' });
        await secrets.stayUnchanged([`team-a/${name}`], 'a copy whose rule has a mistake');
        await scene.say(secrets, `source/${name}`, push('team-b'));
        await secrets.gone(`team-a/${name}`);
        await secrets.holds(`team-b/${name}`, { a: '2' });
      });

      it('a suspended source and the consent of a namespace hold', async () => {
        const { secrets } = scene;
        const [name, picky] = [`${system}-wanted`, `picky-${system}`];
        const annotations = { 'keyferry.dev/accept-from': 'other' };
        await scene.api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: picky, annotations } });
        await scene.put(secrets, `source/${name}`, { a: '1' }, push(picky, 'team-a'));
        await secrets.holds(`team-a/${name}`, { a: '1' });
        await secrets.warning(`source/${name}`, 'NotAccepted');
        assert.equal(await secrets.find(`${picky}/${name}`), undefined);
        const suspended = { metadata: { annotations: { 'keyferry.dev/suspend': 'true', ...push('team-b') } } };
        await scene.api.patch(secrets.path(`source/${name}`), { ...suspended, data: secrets.data({ a: '2' }) });
        await secrets.stayUnchanged([`team-a/${name}`], 'a copy of a suspended source');
        await secrets.holds(`team-a/${name}`, { a: '1' });
        await scene.say(secrets, `source/${name}`, { 'keyferry.dev/suspend': null });
        await secrets.gone(`team-a/${name}`);
        await secrets.holds(`team-b/${name}`, { a: '2' });
      });

      it('Secrets of types that are never copied have an event; another type or an immutable copy is replaced', async () => {
        const { secrets } = scene;
        const [token, name] = [`${system}-token`, `${system}-type`];
        await scene.put(secrets, `source/${token}`, {}, push('team-a'), { type: 'bootstrap.kubernetes.io/token' });
        await scene.put(secrets, `source/${name}`, { a: '1' }, push('team-a'));
        const before = await secrets.holds(`team-a/${name}`, { a: '1' });
        await secrets.delete(`source/${name}`);
        const type = 'kubernetes.io/basic-auth';
        await scene.put(secrets, `source/${name}`, { username: '1', password: '2' }, push('team-a'), { type });
        const after = await secrets.becomes(`team-a/${name}`, (copy) => copy.type === type, 'of the new type');
        assert.notEqual(after.metadata.uid, before.metadata.uid);
        await scene.api.patch(secrets.path(`team-a/${name}`), { immutable: true });
        await secrets.change(`source/${name}`, { username: '3', password: '4' });
        await secrets.holds(`team-a/${name}`, { username: '3', password: '4' });
        await secrets.warning(`source/${token}`, 'RefusedType');
        assert.equal(await secrets.find(`team-a/${token}`), undefined);
      });
    });
});

it('a client that keeps overwriting a copy is told by an event, and the writes become rare', async () => {
  const { secrets, api } = scene;
  const [{ push }] = SYSTEMS as readonly [(typeof SYSTEMS)[number]];
  await scene.put(secrets, 'source/fight', { a: '1' }, push('team-a'));
  await secrets.holds('team-a/fight', { a: '1' });
  await waitFor(
    async () => {
      await secrets.change('team-a/fight', { stub: 'x' });
      const events: Json[] = await api.list('/api/v1/namespaces/source/events');
      return events.some(({ reason, involvedObject }) => reason === 'Contested' && involvedObject.name === 'fight');
    },
    { message: 'an event Contested', intervalMs: 100 },
  );
});

it('what changed while nobody ran is caught up: a rule that went, a narrower rule, a source that went', async () => {
  const { secrets } = scene;
  const whats = ['removed', 'narrowed', 'deleted'] as const;
  const at = ({ name }: (typeof SYSTEMS)[number], what: (typeof whats)[number]): string => `${name}-${what}`;
  for (const system of SYSTEMS)
    for (const what of whats)
      await scene.put(secrets, `source/${at(system, what)}`, { a: '1' }, system.push('team-a', 'team-b'));
  for (const system of SYSTEMS) for (const what of whats) await secrets.holds(`team-b/${at(system, what)}`, { a: '1' });
  await operator.kill9();
  for (const system of SYSTEMS) {
    await scene.say(secrets, `source/${at(system, 'removed')}`, without(system.push()));
    await scene.say(secrets, `source/${at(system, 'narrowed')}`, system.push('team-a'));
    await secrets.delete(`source/${at(system, 'deleted')}`);
  }
  operator = await scene.operator(ARGS);
  for (const system of SYSTEMS) {
    for (const what of whats) await secrets.gone(`team-b/${at(system, what)}`);
    for (const what of ['removed', 'deleted'] as const) await secrets.gone(`team-a/${at(system, what)}`);
    await secrets.holds(`team-a/${at(system, 'narrowed')}`, { a: '1' });
  }
});
