/** What the engine does for an object that asks for the data of a source, in every system with such annotations. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { rowsOf } from '../../support/long.ts';
import { AnnotatedScene, KINDS } from './support.ts';
import { PULLING, without } from './systems.ts';

let scene: AnnotatedScene;
before(async () => {
  scene = await AnnotatedScene.open();
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  await scene.operator(['--source-grace=1s']);
});
after(() => scene.close());

describe('objects that pull', { concurrency: true }, () => {
  for (const { name: system, prefix, version, push, pull } of PULLING)
    describe(system, { concurrency: 4 }, () => {
      const { ask, permit, forbid, merges } = pull;
      const own = merges ? { own: 'x' } : {};

      // A short run has the ConfigMap, because it has binary data, too.
      for (const kind of rowsOf(KINDS.toReversed()))
        it(`a ${kind.kind} is filled when its source permits it, and follows it; type, labels and other annotations stay`, async () => {
          const users = scene.of(kind);
          const isSecret = kind.kind === 'Secret';
          const [source, target] = [`source/${system}-late`, `team-a/${system}-late`];
          const more = { metadata: { labels: { my: 'label' } }, ...(isSecret ? { type: 'my/type' } : {}) };
          await scene.put(users, target, { own: 'x' }, { ...ask(source), 'my.org/note': 'kept' }, more);
          await users.warning(target, 'Denied');
          const binaryData = { raw: 'AAEC' };
          await scene.put(users, source, { a: '1' }, {}, isSecret ? {} : { binaryData });
          await users.stayUnchanged([target], 'an object without permission');
          await scene.say(users, source, permit);
          const filled = await users.holds(target, { a: '1', ...own });
          assert.equal(version(filled), await users.version(source));
          const { labels, annotations } = filled.metadata;
          assert.deepEqual([labels, annotations['my.org/note']], [{ my: 'label' }, 'kept']);
          const marks = Object.keys(annotations).filter((key) => key.startsWith(`${prefix}/`));
          const asked = Object.keys(ask(source));
          assert.deepEqual(
            marks.filter((key) => !asked.includes(key)).toSorted(),
            pull.marks.map((mark) => `${prefix}/${mark}`),
          );
          assert.equal(annotations['keyferry.dev/target'], undefined);
          assert.deepEqual(
            [filled.type, filled.binaryData],
            [isSecret ? 'my/type' : undefined, isSecret ? undefined : binaryData],
          );
          await scene.say(users, source, { 'my.org/other': 'metadata' });
          await users.stayUnchanged([target], 'an object whose source has the same data');
          if (!isSecret) {
            await scene.api.patch(users.path(source), { binaryData: null });
            await users.becomes(target, (object) => object.binaryData === undefined, 'without binary data');
          }
          await users.change(source, { b: '2' });
          await users.holds(target, { b: '2', ...own });
          await scene.set(users, target, { b: 'edited' });
          await users.holds(target, { b: '2', ...own });
          await scene.say(users, source, forbid);
          await users.change(source, { b: '3' });
          await users.holds(target, { ...(pull.forbidden === 'kept' ? { b: '2' } : {}), ...own });
          await users.stayUnchanged([target], 'an object whose permission was withdrawn');
          await scene.say(users, source, permit);
          await users.holds(target, { b: '3', ...own });
          await users.delete(source);
          await users.holds(target, { ...(pull.gone === 'kept' ? { b: '3' } : {}), ...own });
          await scene.put(users, source, { c: '4' }, permit);
          await users.holds(target, { c: '4', ...own });
          await scene.say(users, target, without(ask(source)));
          await users.change(source, { c: '5' });
          await users.stayUnchanged([target], 'an object that no longer asks');
        });

      it('follows a new source alone, and is a source for others by its own permission; what pulls does not push', async () => {
        const { secrets } = scene;
        const at = (place: string, what: string): string => `${place}/${system}-${what}`;
        await scene.put(secrets, at('source', 'head'), { a: '1' }, permit);
        // With both, k8s-replicator makes copies that pull, too.
        const pushes = system === 'replicator' ? {} : push('team-c');
        await scene.put(secrets, at('team-a', 'middle'), {}, { ...pushes, ...ask(at('source', 'head')), ...permit });
        await scene.put(secrets, at('team-b', 'tail'), {}, ask(at('team-a', 'middle')));
        await secrets.holds(at('team-b', 'tail'), { a: '1' });
        await secrets.change(at('source', 'head'), { a: '2' });
        await secrets.holds(at('team-b', 'tail'), { a: '2' });
        await scene.put(secrets, at('source', 'other'), { b: '1' }, permit);
        await scene.say(secrets, at('team-b', 'tail'), ask(at('source', 'other')));
        await secrets.holds(at('team-b', 'tail'), { b: '1' });
        await secrets.change(at('source', 'head'), { a: '3' });
        await secrets.holds(at('team-a', 'middle'), { a: '3' });
        await secrets.holds(at('team-b', 'tail'), { b: '1' });
        assert.equal(await secrets.find(at('team-c', 'middle')), undefined);
      });

      it('events tell of what is no reference, and not whether a source elsewhere exists', async () => {
        const { secrets } = scene;
        const self = `team-a/${system}-self`;
        const bad = pull.illFormed.map((text, index) => [`team-a/${system}-bad-${index}`, text] as const);
        const places = [[self, self] as const, ...bad];
        for (const [place, text] of places) await scene.put(secrets, place, { own: 'x' }, ask(text));
        for (const [place] of places) await secrets.warning(place, 'IllFormed');
        await scene.put(secrets, `source/${system}-closed`, { a: '1' });
        const told = async (what: string): Promise<string> => {
          await scene.put(secrets, `team-b/${system}-${what}`, { own: 'x' }, ask(`source/${system}-${what}`));
          const { message } = await secrets.warning(`team-b/${system}-${what}`, 'Denied');
          return message.replaceAll(what, 'x');
        };
        assert.equal(await told('closed'), await told('missing'));
        for (const place of [...places.map(([one]) => one), `team-b/${system}-closed`, `team-b/${system}-missing`])
          assert.equal((await secrets.find(place))?.metadata.managedFields.length, 1, place);
      });

      it('objects that fill each other, immutable ones and those of types that are never copied stay as they are', async () => {
        const { secrets } = scene;
        const at = (place: string, what: string): string => `${place}/${system}-${what}`;
        const before: Json[] = [];
        for (const [one, other] of [
          ['team-a', 'team-b'],
          ['team-b', 'team-a'],
        ] as const)
          await scene.put(secrets, at(one, 'ring'), { [one]: 'x' }, { ...ask(at(other, 'ring')), ...permit });
        await scene.put(secrets, at('source', 'plain'), { a: '1' }, permit);
        for (const [what, more] of [
          ['frozen', { immutable: true }],
          ['boot', { type: 'bootstrap.kubernetes.io/token' }],
        ] as const)
          before.push(await scene.put(secrets, at('team-a', what), { own: 'x' }, ask(at('source', 'plain')), more));
        await secrets.warning(at('team-a', 'ring'), system === 'replicator' ? 'Denied' : 'Loop');
        // The first may have got the data of the second before the rule of the second was read.
        await secrets.stayUnchanged([at('team-a', 'ring'), at('team-b', 'ring')], 'objects that fill each other');
        await secrets.warning(at('team-a', 'frozen'), 'Immutable');
        await secrets.warning(at('team-a', 'boot'), 'RefusedType');
        for (const { metadata } of before)
          assert.equal(await secrets.version(`${metadata.namespace}/${metadata.name}`), metadata.resourceVersion);
      });
    });
});
