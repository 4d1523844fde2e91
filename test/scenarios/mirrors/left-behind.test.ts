/**
 * In the original, a pattern matched any part of a namespace's name; in Keyferry it must match the whole name. So the
 * original left copies that no pattern matches now.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { HOME, MirrorScene, OWNED_BY, secretPath } from './support.ts';

describe('copies that the original left behind', () => {
  let scene: MirrorScene;
  before(async () => {
    scene = await MirrorScene.open({ controllerManager: false });
    await scene.namespaces('part-a', 'not-part-a', 'not-part-b', 'whole-a');
    for (const where of ['part-a', 'not-part-a']) await original(where, 'part', 'part');
    // This copy has the mark of another mirror.
    await original('not-part-b', 'part', 'other');
    for (const name of ['part', 'whole']) {
      await scene.secret(HOME, name, { a: '1' });
      await scene.mirror(name, [`${name}-.`]);
    }
  });
  after(() => scene.close());

  const original = async (where: string, name: string, mirror: string): Promise<Json> =>
    await scene.secret(where, name, { a: 'old' }, { metadata: { annotations: { [OWNED_BY]: `${HOME}/${mirror}` } } });

  it("a copy that the original made stays unchanged if the mirror's pattern matches only a part of the namespace's name", async () => {
    const operator = await scene.operator();
    await scene.copied('part-a', 'part', { a: '1' });
    await scene.change(HOME, 'part', { a: '2' });
    await scene.copied('part-a', 'part', { a: '2' });
    await scene.ready('part', 'Synced');
    const left = await scene.api.get(secretPath('not-part-a', 'part'));
    assert.equal(left.data.a, scene.value('old'));
    await operator.stop();
  });

  it('with --mirrors-regex=search, Keyferry updates a copy of the original in a namespace whose name a pattern matches in part', async () => {
    await scene.operator({ args: ['--mirrors-regex=search'] });
    await scene.copied('not-part-a', 'part', { a: '2' });
    await scene.ready('part', 'Conflict', /not-part-b/);
  });
});
