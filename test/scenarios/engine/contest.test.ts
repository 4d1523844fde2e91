/** Another controller that wants a copy to be otherwise. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { waitFor } from '../../support/wait-for.ts';
import { HOME, labels, MirrorScene, secretPath } from '../mirrors/support.ts';

let scene: MirrorScene;

before(async () => {
  scene = await MirrorScene.open();
  await scene.operator();
});
after(() => scene.close());

const FIGHT_MS = 4000;
/** Ten at once, and those that the pauses of 1, 2 and 4 s leave room for. */
const MOST_WRITES = 14;

it('a copy that is changed without end is not put right without end, but in the end', async () => {
  await scene.namespaces('contest');
  await scene.secret(HOME, 'contest', { a: '1' }, { metadata: { labels: { team: 'a' } } });
  await scene.mirror('contest', ['contest']);
  await scene.copied('contest', 'contest', { a: '1' });
  const path = secretPath('contest', 'contest');
  let rounds = 0;
  const end = performance.now() + FIGHT_MS;
  await waitFor(
    async () => {
      const copy = await scene.find('contest', 'contest');
      if (copy.metadata.labels.team === 'a') {
        rounds += 1;
        await scene.api.patch(path, labels({ team: 'b' }));
      }
      return performance.now() > end;
    },
    { timeoutMs: FIGHT_MS * 2, intervalMs: 5 },
  );
  assert.ok(rounds > 5, `it was put right ${rounds} times`);
  assert.ok(rounds <= MOST_WRITES, `it was put right ${rounds} times`);
  await scene.ready('contest', 'SyncError', /keeps changing/);
  await waitFor(async () => (await scene.find('contest', 'contest')).metadata.labels.team === 'a');
  await scene.ready('contest', 'Synced');
});
