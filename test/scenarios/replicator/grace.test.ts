/**
 * A source is deleted, and made again or not. To show that something does not happen, a test deletes another source at
 * the same time or later, and waits until the copy of this witness is deleted.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { rowsOf } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import type { WatchEvent, Watcher } from '../../support/watcher.ts';
import { annotation, KINDS, type KindScene, ReplicatorScene } from './support.ts';

const GRACE_MS = 5000;
const ALLOWED = { 'replication-allowed': 'true' };

for (const kind of rowsOf(KINDS)) {
  describe(`a ${kind.kind} whose source is deleted`, () => {
    let scene: ReplicatorScene;
    let users: KindScene;
    let operator: Keyferry;
    let watcher: Watcher;
    const events: WatchEvent[] = [];
    before(async () => {
      scene = await ReplicatorScene.open({ controllerManager: false });
      await scene.namespaces('home', 'team');
      operator = await scene.operator();
      users = scene.of(kind);
      watcher = await scene.api.watch(`/api/v1/namespaces/team/${kind.plural}`, (event) => events.push(event));
    });
    after(async () => {
      await watcher.stop();
      await scene.close();
    });

    /** Makes a source with a pushed copy of the same name. */
    const push = async (
      name: string,
      values: Record<string, string>,
      more: Record<string, string> = {},
    ): Promise<Json> => {
      await users.create(`home/${name}`, values, { 'replicate-to-namespaces': 'team', ...more });
      return await users.holds(`team/${name}`, values);
    };
    const isEmpty = ({ data }: Json): boolean => Object.keys(data ?? {}).length === 0;
    /** When the object was deleted or emptied, as `performance.now()`; `undefined`: it was not. */
    const lost = (name: string): number | undefined =>
      events.find(({ type, object }) => {
        return object.metadata.name === name && (type === 'DELETED' || (type === 'MODIFIED' && isEmpty(object)));
      })?.at;
    const lostAt = async (name: string): Promise<number> =>
      await waitFor(() => lost(name), { message: `team/${name} to be deleted or emptied` });

    it('if it is made again within five seconds, copies stay the same objects and what was copied once stays', async () => {
      await push('witness', { a: '1' });
      const once = await push('once', { password: 'first' }, { 'replicate-once': 'true' });
      const plain = await push('plain', { a: '1' });
      await users.create('home/allows', { a: '1' }, ALLOWED);
      await users.create('team/pulls', {}, { 'replicate-from': 'home/allows', ...ALLOWED });
      await users.create('team/pulls-once', {}, { 'replicate-from': 'home/allows', 'replicate-once': 'true' });
      await users.create('team/chained', {}, { 'replicate-from': 'team/pulls', 'replicate-once': 'true' });
      for (const name of ['pulls', 'pulls-once', 'chained']) await users.holds(`team/${name}`, { a: '1' });
      for (const name of ['once', 'plain', 'allows', 'witness']) await users.delete(`home/${name}`);
      await users.create(
        'home/once',
        { password: 'second' },
        { 'replicate-to-namespaces': 'team', 'replicate-once': 'true' },
      );
      await users.create('home/plain', { a: '2' }, { 'replicate-to-namespaces': 'team' });
      await users.create('home/allows', { a: '2' }, ALLOWED);
      await users.holds('team/plain', { a: '2' });
      await users.holds('team/pulls', { a: '2' });
      await lostAt('witness');
      for (const name of ['once', 'plain', 'pulls', 'pulls-once', 'chained']) assert.equal(lost(name), undefined, name);
      assert.equal((await users.holds('team/once', { password: 'first' })).metadata.uid, once.metadata.uid);
      assert.equal((await users.holds('team/plain', { a: '2' })).metadata.uid, plain.metadata.uid);
      await users.holds('team/pulls-once', { a: '1' });
      await users.holds('team/chained', { a: '1' });
    });

    it('if it stays away, copies are deleted and objects emptied after five seconds, and a chain is emptied together', async () => {
      await push('pushed', { a: '1' });
      await users.create('home/feeds', { a: '1' }, ALLOWED);
      await users.create('team/first', { own: '1' }, { 'replicate-from': 'home/feeds', ...ALLOWED });
      await users.create('team/second', { own: '1' }, { 'replicate-from': 'team/first' });
      await users.holds('team/second', { a: '1' });
      const deletedAt = performance.now();
      await users.delete('home/pushed');
      await users.delete('home/feeds');
      for (const name of ['pushed', 'first', 'second']) assert.ok((await lostAt(name)) - deletedAt >= GRACE_MS, name);
      assert.ok((await lostAt('second')) - (await lostAt('first')) < GRACE_MS);
    });

    it('the five seconds begin again with another process', async () => {
      const copy = await push('restarted', { a: '1' });
      assert.equal(annotation(copy, 'replicated-by'), 'home/restarted');
      await push('returned', { a: '1' });
      await users.delete('home/restarted');
      await users.delete('home/returned');
      await operator.kill9();
      const startedAt = performance.now();
      operator = await scene.operator();
      assert.equal(lost('returned'), undefined);
      await users.create('home/returned', { a: '2' }, { 'replicate-to-namespaces': 'team' });
      assert.ok((await lostAt('restarted')) - startedAt >= GRACE_MS);
      await users.holds('team/returned', { a: '2' });
      assert.equal(lost('returned'), undefined);
    });
  });
}
