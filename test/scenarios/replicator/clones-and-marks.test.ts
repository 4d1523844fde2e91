/**
 * A mark counts only in the place for which it was written. So clones of pushed copies, and sources that users restore
 * from copies, belong to users.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { rowsOf } from '../../support/long.ts';
import { staysTrue } from '../../support/wait-for.ts';
import { annotation, KINDS, ReplicatorScene, SETTLE_MS } from './support.ts';

const PLACE = 'keyferry.dev/target';

let scene: ReplicatorScene;
before(async () => {
  scene = await ReplicatorScene.open({ controllerManager: false });
  await scene.namespaces('source', 'team-a', 'team-b', 'team-c');
  await scene.operator();
});
after(() => scene.close());

for (const kind of rowsOf(KINDS)) {
  describe(`clones and marks of a ${kind.kind}`, { concurrency: 4 }, () => {
    /**
     * Creates an object again with its marks, in another namespace or with another name. A user does so with `kubectl
     * get -o yaml` and `kubectl apply`.
     */
    const clone = async ({ metadata, data }: Json, place: string, more: Json = {}): Promise<Json> => {
      const [namespace, name] = place.split('/');
      const annotations = { ...metadata.annotations, ...more };
      return await scene.api.create({
        apiVersion: 'v1',
        kind: kind.kind,
        data,
        metadata: { namespace, name, labels: metadata.labels, annotations },
      });
    };
    const untouched = async (...objects: readonly Json[]): Promise<boolean> => {
      const now = await Promise.all(
        objects.map(({ metadata }) => scene.of(kind).find(`${metadata.namespace}/${metadata.name}`)),
      );
      return JSON.stringify(now) === JSON.stringify(objects);
    };
    /**
     * Waits until Keyferry has handled all earlier events: creates a copy without a source, and waits until Keyferry
     * deletes it.
     */
    const waitForEvents = async (name: string): Promise<void> => {
      const users = scene.of(kind);
      await users.create(`team-c/${name}-unwanted`, {}, { 'replicated-by': 'source/never-there' });
      await scene.api.patch(users.path(`team-c/${name}-unwanted`), {
        metadata: { annotations: { [PLACE]: `team-c/${name}-unwanted` } },
      });
      await users.gone(`team-c/${name}-unwanted`);
    };

    it(`if a user clones a pushed ${kind.kind}, the clone stays unchanged when the source is changed or deleted`, async () => {
      const users = scene.of(kind);
      await users.create('source/cloned', { a: '1' }, { 'replicate-to-namespaces': 'team-a' });
      const copy = await users.holds('team-a/cloned', { a: '1' });
      assert.equal(copy.metadata.annotations[PLACE], 'team-a/cloned');
      const clones = [await clone(copy, 'team-b/cloned'), await clone(copy, 'team-a/cloned-too')];
      await waitForEvents('cloned');
      await users.change('source/cloned', { a: '2' });
      await users.holds('team-a/cloned', { a: '2' });
      assert.ok(await untouched(...clones), 'after a change of the source');
      await users.annotate('source/cloned', { 'replicate-to-namespaces': 'team-a,team-b' });
      const { message } = await users.warning('source/cloned', 'Conflict');
      assert.match(message, /cloned from a copy/);
      await users.delete('source/cloned');
      await users.gone('team-a/cloned');
      await waitForEvents('cloned');
      await staysTrue(() => untouched(...clones), SETTLE_MS, 'the clones, after the source was deleted');
    });

    it(`a user's clone of a pushed ${kind.kind} can push and pull like any other object of a user`, async () => {
      const users = scene.of(kind);
      await users.create('source/origin', { a: '1' }, { 'replicate-to': 'team-a/pushed' });
      const copy = await users.holds('team-a/pushed', { a: '1' });
      await clone(copy, 'team-b/pushes', { 'k8s-replicator/replicate-to': 'team-c/pushed-on' });
      const next = await users.holds('team-c/pushed-on', { a: '1' });
      assert.equal(annotation(next, 'replicated-by'), 'team-b/pushes');
      assert.equal(next.metadata.annotations[PLACE], 'team-c/pushed-on');
      await users.create('source/other', { b: '1' }, { 'replication-allowed': 'true' });
      await clone(copy, 'team-b/pulls', { 'k8s-replicator/replicate-from': 'source/other' });
      await users.holds('team-b/pulls', { b: '1' });
      await users.delete('source/origin');
      await users.gone('team-a/pushed');
      await waitForEvents('pushes');
      await users.holds('team-c/pushed-on', { a: '1' });
      await users.holds('team-b/pulls', { b: '1' });
    });

    it(`if a user restores a deleted source ${kind.kind} from one of its copies, it pushes again`, async () => {
      const users = scene.of(kind);
      const to = { 'replicate-to': 'team-a/restored' };
      await users.create('source/restored', { a: '1' }, to);
      const copy = await users.holds('team-a/restored', { a: '1' });
      await users.delete('source/restored');
      await users.gone('team-a/restored');
      await clone(copy, 'source/restored', { 'k8s-replicator/replicate-to': 'team-a/restored' });
      const { metadata } = await users.holds('team-a/restored', { a: '1' });
      assert.equal(metadata.annotations[PLACE], 'team-a/restored');
      await users.change('source/restored', { a: '2' });
      await users.holds('team-a/restored', { a: '2' });
    });

    it(`if a user marks a source ${kind.kind} as a copy, it stays unchanged`, async () => {
      const users = scene.of(kind);
      await users.create('source/live', { a: '1' }, { 'replication-allowed': 'true' });
      await users.create('team-a/live', {}, { 'replicate-from': 'source/live' });
      await users.holds('team-a/live', { a: '1' });
      const marked = await users.annotate('source/live', { 'replicated-by': 'source/never-there' });
      await waitForEvents('live');
      await staysTrue(() => untouched(marked), SETTLE_MS, 'the source');
    });

    it(`a ${kind.kind} marked as a copy of a missing source stays; if it also has the annotation keyferry.dev/target, it is deleted`, async () => {
      const users = scene.of(kind);
      const left = await users.create('team-a/left', { a: '1' }, { 'replicated-by': 'source/never-there' });
      await waitForEvents('left');
      await staysTrue(() => untouched(left), SETTLE_MS, 'the object with the mark of another place');
      await scene.api.patch(users.path('team-a/left'), { metadata: { annotations: { [PLACE]: 'team-a/left' } } });
      await users.gone('team-a/left');
    });
  });
}
