/** Sources change while the replicator is down. The replicator runs with flags of the original. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { staysTrue } from '../../support/wait-for.ts';
import { annotate, KINDS, ReplicatorScene, SETTLE_MS } from './support.ts';

describe('a replicator with other flags', () => {
  it('after a restart, the replicator catches up with all changes, and keeps the copies of a source whose annotation is invalid', async () => {
    await using stack = new AsyncDisposableStack();
    const scene = stack.adopt(await ReplicatorScene.open({ controllerManager: false }), (opened) => opened.close());
    await scene.namespaces('a', 'b');
    const first = await scene.operator([
      '-annotations-prefix',
      'my.org',
      '-run-replicators=secret',
      '-create-with-labels=',
    ]);
    assert.deepEqual(JSON.parse((await first.probe('/healthz')).text), { notReady: [] });
    const users = scene.of(KINDS[0]!);
    const my = (values: Record<string, string>): Json => ({ metadata: { annotations: annotate(values, 'my.org') } });
    const source = async (name: string, values: Record<string, string>): Promise<void> => {
      await users.create(`a/${name}`, { a: '1' });
      await scene.api.patch(users.path(`a/${name}`), my(values));
    };
    for (const name of ['gone', 'shrunk', 'broken', 'stays']) {
      await source(name, { 'replicate-to': `b/${name}` });
      await users.holds(`b/${name}`, { a: '1' });
    }
    await source('pulled', { 'replication-allowed': 'true' });
    await users.create('b/pulls', {});
    await scene.api.patch(users.path('b/pulls'), my({ 'replicate-from': 'a/pulled' }));
    await users.holds('b/pulls', { a: '1' });
    assert.deepEqual((await users.find('b/stays')).metadata.labels, { 'keyferry.dev/copy': 'replicator' });
    const maps = scene.of(KINDS[1]!);
    await maps.create('a/map', { a: '1' });
    await scene.api.patch(maps.path('a/map'), my({ 'replicate-to': 'b/map' }));
    await first.kill9();
    await users.delete('a/gone');
    await users.delete('a/pulled');
    await scene.api.patch(users.path('a/shrunk'), my({ 'replicate-to': 'b/elsewhere' }));
    await scene.api.patch(users.path('a/broken'), my({ 'replicate-to': 'NOT GOOD' }));
    const versions = [await users.version('b/stays'), await users.version('b/broken')];
    await scene.operator(['-annotations-prefix', 'my.org/', '-run-replicators=secret', '-create-with-labels=']);
    await users.gone('b/gone');
    await users.gone('b/shrunk');
    await users.holds('b/elsewhere', { a: '1' });
    await users.holds('b/pulls', {});
    await staysTrue(
      async () => (await users.version('b/stays')) === versions[0] && (await users.version('b/broken')) === versions[1],
      SETTLE_MS,
      'the copies that were up to date',
    );
    assert.equal(await maps.find('b/map'), undefined);
  });
});
