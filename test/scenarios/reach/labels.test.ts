/**
 * SecretMirrors select namespaces by labels and exclude some namespaces. Their copies follow changes of labels and
 * rules, also after a restart, and a label that changes many times a second delays no other mirror.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { runProgram } from '../cli/program.ts';
import { labels, mirrorPath, MirrorScene, secretPath } from '../mirrors/support.ts';

const VALUES = { password: 'x' };
const PROD = { matchLabels: { tier: 'prod' } };

describe('SecretMirrors by labels of namespaces', () => {
  let scene: MirrorScene;

  const label = async (namespace: string, values: Record<string, string | null>): Promise<Json> =>
    await scene.api.patch(`/api/v1/namespaces/${namespace}`, labels(values));

  before(async () => {
    scene = await MirrorScene.open({ controllerManager: false });
    await scene.namespaces('one', 'two', 'three', 'four', 'flipping', 'calm');
    await scene.secret('default', 'db', VALUES);
    await label('one', { tier: 'prod', team: 'a' });
    await scene.operator();
  });

  after(async () => {
    await scene.close();
  });

  it('a mirror with a namespaceSelector copies to namespaces with the label, and follows when a label is added, changed or removed', async () => {
    await scene.mirror('db', [], { destination: { namespaceSelector: PROD, excludedNamespaces: ['four'] } });
    await scene.copied('one', 'db', VALUES);
    await label('four', { tier: 'prod' });
    await label('two', { tier: 'prod' });
    await scene.copied('two', 'db', VALUES, 1000);
    await scene.ready('db', 'Synced', /^2 copies are up to date$/);
    await label('two', { tier: 'test' });
    await scene.gone(secretPath('two', 'db'));
    assert.equal(await scene.find('four', 'db'), undefined, 'excluded');
    await label('two', { tier: 'prod' });
    await scene.copied('two', 'db', VALUES);
  });

  it('if a mirror selects by a label key that no rule used before, it finds the namespaces with that key, and later those without it', async () => {
    await scene.secret('default', 'late', VALUES);
    const namespaceSelector = { matchExpressions: [{ key: 'team', operator: 'Exists' }] };
    await scene.mirror('late', ['one', 'two', 'three'], { destination: { namespaceSelector } });
    await scene.copied('one', 'late', VALUES);
    await scene.ready('late', 'Synced', /^1 copy is up to date$/);
    await scene.api.patch(mirrorPath('late'), {
      spec: { destination: { namespaceSelector: { matchExpressions: [{ key: 'team', operator: 'DoesNotExist' }] } } },
    });
    await scene.gone(secretPath('one', 'late'));
    for (const namespace of ['two', 'three']) await scene.copied(namespace, 'late', VALUES);
  });

  it('after a restart, a mirror with a namespaceSelector keeps its copies, and deletes those whose namespace lost the label meanwhile', async () => {
    const before = await Promise.all(['one', 'two'].map(async (namespace) => await scene.find(namespace, 'db')));
    const [first] = scene.operators;
    await first?.stop();
    await label('two', { tier: null });
    await scene.operator();
    await scene.gone(secretPath('two', 'db'));
    const again = await scene.find('one', 'db');
    assert.equal(again.metadata.resourceVersion, before[0].metadata.resourceVersion, 'not written');
  });

  it('status shows the namespaceSelector of a mirror, and explain of a copy that it causes names the source', async () => {
    const { stdout } = await runProgram(['status', '--kubeconfig', scene.plane.kubeconfigPath, '-o', 'wide']);
    assert.match(stdout, /selector:tier=prod/);
    await label('three', { tier: 'prod' });
    await scene.copied('three', 'db', VALUES);
    const explained = await runProgram(['explain', 'secret', 'three/db', '--kubeconfig', scene.plane.kubeconfigPath]);
    assert.match(explained.stdout, /is a copy of/);
  });

  it('if a label changes 50 times a second, other mirrors are not delayed, and the last value of the label decides on the copy', async () => {
    await scene.secret('default', 'calm', VALUES);
    let flips = 0;
    const operator = scene.operators.at(-1);
    const writes = async (): Promise<number> => (await operator?.metric('keyferry_writes_total')) ?? 0;
    const [from, before] = [Date.now(), await writes()];
    const until = from + 4000;
    const flipping = (async () => {
      while (Date.now() < until || flips <= 40) {
        await label('flipping', { tier: flips % 2 === 0 ? 'prod' : null });
        flips += 1;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    await scene.mirror('calm', ['calm']);
    await scene.copied('calm', 'calm', VALUES, 2000);
    await scene.api.delete(mirrorPath('calm'));
    await scene.gone(secretPath('calm', 'calm'));
    await flipping;
    // At most one evaluation per second, with one write each. The other 4 writes are those of the mirror `calm`.
    const most = (Date.now() - from) / 1000 + 4;
    assert.ok((await writes()) - before <= most, `${(await writes()) - before} writes, at most ${most}`);
    await label('flipping', { tier: 'prod' });
    await scene.copied('flipping', 'db', VALUES);
    await label('flipping', { tier: null });
    await scene.gone(secretPath('flipping', 'db'));
  });
});
