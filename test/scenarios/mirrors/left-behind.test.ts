/** Copies of the original in namespaces where a pattern matches only a part of the name: the log names them. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { HOME, mirrorPath, MirrorScene, OWNED_BY, secretPath } from './support.ts';

describe('copies that the original left behind', () => {
  let scene: MirrorScene;
  before(async () => {
    scene = await MirrorScene.open({ audit: true });
    await scene.namespaces('part-a', 'not-part-a', 'not-part-b', 'whole-a');
    for (const where of ['part-a', 'not-part-a']) await original(where, 'part', 'part');
    // A copy of another mirror.
    await original('not-part-b', 'part', 'other');
    for (const name of ['part', 'whole']) {
      await scene.secret(HOME, name, { a: '1' });
      await scene.mirror(name, [`${name}-.`]);
    }
  });
  after(() => scene.close());

  const original = async (where: string, name: string, mirror: string): Promise<Json> =>
    await scene.secret(where, name, { a: 'old' }, { metadata: { annotations: { [OWNED_BY]: `${HOME}/${mirror}` } } });
  const lines = (operator: Keyferry): Json[] =>
    operator.logs().filter(({ msg }) => /copies made by ktsstudio/.test(msg ?? ''));
  /** Lists of Secrets of one name, which only the search for such copies sends. */
  const lists = async (name: string): Promise<number> => {
    const log = await readFile(scene.plane.auditLogPath, 'utf8');
    const own = log.split('\n').filter((line) => line.includes('"/api/v1/secrets?limit=500'));
    return own.filter((line) => line.includes(`fieldSelector=metadata.name%3D${name}"`)).length;
  };

  it('are logged once for each version of their mirror, and not changed', async () => {
    const operator = await scene.operator();
    await scene.copied('part-a', 'part', { a: '1' });
    await scene.ready('whole', 'Synced');
    await waitFor(() => lines(operator).length > 0, { message: 'a line in the log' });
    assert.deepEqual(
      lines(operator).map(({ level, mirror, name, count }) => [level, mirror, name, count]),
      [['warn', `${HOME}/part`, 'part', 1]],
    );
    assert.match(lines(operator)[0].msg, /in namespace not-part-a are not updated: .*--mirrors-regex=search/);
    // Writing its status again does not change its generation.
    await scene.change(HOME, 'part', { a: '2' });
    await scene.copied('part-a', 'part', { a: '2' });
    const edited = await scene.api.patch(mirrorPath('part'), {
      spec: { destination: { namespaces: ['part-.', 'x'] } },
    });
    await waitFor(() => lines(operator).length > 1, { message: 'a line of the new version' });
    const { observedGeneration } = await scene.ready('part', 'Synced');
    assert.equal(observedGeneration, edited.metadata.generation);
    assert.equal(lines(operator).length, 2);
    const left = await scene.api.get(secretPath('not-part-a', 'part'));
    assert.equal(left.data.a, scene.value('old'));
    assert.deepEqual(
      [await lists('part'), await lists('whole')],
      [2, 0],
      'one list a version, and only where it can find any',
    );
    await operator.stop();
  });

  it('are managed with --mirrors-regex=search, and not logged', async () => {
    const operator = await scene.operator({ args: ['--mirrors-regex=search'] });
    await scene.copied('not-part-a', 'part', { a: '2' });
    await scene.ready('part', 'Conflict', /not-part-b/);
    assert.deepEqual(lines(operator), []);
  });
});
