/** A pushed copy keeps its type, even if a Secret with another type fills it. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { type KindScene, KINDS, ReplicatorScene } from '../replicator/support.ts';

let scene: ReplicatorScene;
let secrets: KindScene;

before(async () => {
  scene = await ReplicatorScene.open({ controllerManager: false });
  secrets = scene.of(KINDS[0]!);
  await scene.operator();
});
after(() => scene.close());

it('if a pushed copy was filled from a Secret of another type and its source stops pulling, the copy is not replaced', async () => {
  await scene.namespaces('other', 'made');
  const allowed = { 'replication-allowed': 'true' };
  await secrets.create('other/types', { a: 'filled' }, allowed, { type: 'example.com/other' });
  await secrets.create(
    'default/types',
    { a: 'own' },
    { ...allowed, 'replicate-from': 'other/types', 'replicate-to': 'made/types' },
  );
  const filled = await secrets.holds('made/types', { a: 'filled' });
  assert.equal(filled.type, 'Opaque');
  await secrets.annotate('default/types', { 'replicate-from': null });
  await secrets.change('default/types', { a: 'own' });
  const copied = await secrets.holds('made/types', { a: 'own' });
  assert.equal(copied.metadata.uid, filled.metadata.uid, 'it was replaced');
});
