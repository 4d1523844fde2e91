/** A user's object with the namespace and name of a copy stays unchanged when the source is changed or deleted. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { rowsOf } from '../../support/long.ts';
import { staysTrue } from '../../support/wait-for.ts';
import { annotate, KINDS, ReplicatorScene, SETTLE_MS } from './support.ts';

/**
 * Fields of a user's Secret that do not make it a copy. `%` stands for the place of that Secret, `@` for the source.
 */
const MARKS: Readonly<Record<string, Json>> = {
  'without any mark': {},
  'without any data': { data: undefined },
  'with a mark that names this object itself': { metadata: { annotations: annotate({ 'replicated-by': '%' }) } },
  'with a mark that has another prefix': { metadata: { annotations: annotate({ 'replicated-by': '@' }, 'my.org') } },
  'with the mark as a label and not as an annotation': {
    metadata: { labels: { 'k8s-replicator/replicated-by': 'source' } },
  },
  'with the label of a copy': { metadata: { labels: { 'app.kubernetes.io/managed-by': 'k8s-replicator' } } },
  'with all labels and annotations of a copy except the mark': {
    metadata: {
      labels: { 'app.kubernetes.io/managed-by': 'k8s-replicator' },
      annotations: annotate({
        'replicated-at': '2020-01-01T00:00:00Z',
        'replicated-from-version': '1',
        'replicated-from-origin': '@',
        'replicated-from-allowed': '.*',
        'replicate-once': 'true',
        'replicate-once-version': 'v1',
      }),
    },
  },
};

let scene: ReplicatorScene;
before(async () => {
  scene = await ReplicatorScene.open({ controllerManager: false });
  await scene.namespaces('source');
  await scene.operator();
});
after(() => scene.close());

for (const kind of rowsOf(KINDS)) {
  describe(`a user's ${kind.kind} in the place of a copy`, { concurrency: 8 }, () => {
    for (const [index, [title, marks]] of rowsOf(Object.entries(MARKS), 3).entries()) {
      it(`a user's ${kind.kind} with the namespace and name of a copy, ${title}, stays unchanged when the source is changed or deleted`, async () => {
        const users = scene.of(kind);
        const name = `foreign-${index}`;
        const mine = `${kind.plural}-${index}`;
        const source = `source/${name}`;
        await scene.namespaces(mine, `${mine}-2`, `free-${mine}`);
        const foreign: Json[] = [];
        for (const namespace of [mine, `${mine}-2`]) {
          const place = `${namespace}/${name}`;
          const text = JSON.stringify(marks).replaceAll('%', place).replaceAll('@', source);
          const { metadata, ...more } = JSON.parse(text);
          foreign.push(
            await scene.api.create({
              apiVersion: 'v1',
              kind: kind.kind,
              ...('data' in marks ? {} : { data: users.data({ theirs: 'x' }) }),
              ...more,
              metadata: { ...metadata, namespace, name },
            }),
          );
        }
        const untouched = async (): Promise<boolean> => {
          const now = await Promise.all(
            foreign.map(({ metadata }) => users.find(`${metadata.namespace}/${metadata.name}`)),
          );
          return JSON.stringify(now) === JSON.stringify(foreign);
        };
        // Matches three namespaces: the one of the source, the one of the user's object, and a free one. It does not
        // match the whole name of `…-2`.
        const wide = `sourc[e],(${mine}),free-${mine}.*`;
        const { metadata: made } = await users.create(source, { a: '1' }, { 'replicate-to-namespaces': wide });
        await users.holds(`free-${mine}/${name}`, { a: '1' });
        await users.warning(source, 'Conflict');
        await users.change(source, { a: '2' });
        await users.holds(`free-${mine}/${name}`, { a: '2' });
        await scene.namespaces(`free-${mine}-late`);
        await users.holds(`free-${mine}-late/${name}`, { a: '2' });
        assert.ok(await untouched(), 'after a change, and a namespace that has come');
        await users.annotate(source, { 'replicate-to-namespaces': `free-${mine}` });
        await users.gone(`free-${mine}-late/${name}`);
        assert.ok(await untouched(), 'after a narrowing');
        await users.annotate(source, { 'replicate-to-namespaces': wide });
        await users.holds(`free-${mine}-late/${name}`, { a: '2' });
        await users.annotate(source, { 'replicate-to-namespaces': null });
        await users.gone(`free-${mine}/${name}`);
        assert.equal((await users.find(source)).metadata.uid, made.uid, 'the source is no copy of its own');
        await users.annotate(source, { 'replicate-to-namespaces': wide });
        await users.holds(`free-${mine}/${name}`, { a: '2' });
        await users.delete(source);
        await users.gone(`free-${mine}/${name}`);
        await staysTrue(untouched, SETTLE_MS, 'it, after the source was deleted');
      });
    }
  });
}
