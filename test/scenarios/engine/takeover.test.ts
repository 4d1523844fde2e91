/** A mirror is deleted, and the next mirror cannot take over its copy: a failed takeover never blocks deletion, and no copy is left behind. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { FaultProxy } from '../../servers/fault-proxy.ts';
import { proxied } from '../../servers/proxied.ts';
import { kubernetesFault } from '../../servers/fault-rules.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { HOME, mirrorPath, MirrorScene, OWNED_BY, secretPath } from '../mirrors/support.ts';
import { refuse } from './admission.ts';

let scene: MirrorScene;
let proxy: FaultProxy;

before(async () => {
  scene = await MirrorScene.open();
  const through = await proxied(scene.plane);
  ({ proxy } = through);
  await scene.operator({ kubeconfig: through.kubeconfig });
});
afterEach(() => proxy.clearRules());
after(async () => {
  await scene.close();
  await proxy.stop();
});

/** A target that the mirror in HOME has, and that the one in `<name>-home` waits for. */
async function createTwoClaims(name: string): Promise<void> {
  await scene.namespaces(`${name}-home`, `${name}-target`);
  await scene.secret(HOME, name, { a: '1' });
  const { metadata } = await scene.mirror(name, [`${name}-target`]);
  await scene.copied(`${name}-target`, name, { a: '1' });
  // Rules created in the same second can be in either order.
  await waitFor(() => Date.now() >= Date.parse(metadata.creationTimestamp) + 1000);
  await scene.secret(`${name}-home`, name, { b: '2' });
  await scene.mirror(name, [`${name}-target`], {}, `${name}-home`);
  await scene.ready(name, 'Conflict', /(?:)/, `${name}-home`);
}

const isTakeover = (name: string): string =>
  `object.metadata.?annotations['${OWNED_BY}'].orValue('') == '${name}-home/${name}'`;

describe('the takeover of a copy when its mirror is deleted', () => {
  it('is refused by the server: mirror and copy are deleted, and the next mirror copies when it is permitted', async () => {
    await createTwoClaims('refused');
    {
      await using _ = await refuse(scene.api, 'refused', { when: isTakeover('refused') });
      await scene.api.delete(mirrorPath('refused'));
      await scene.gone(mirrorPath('refused'), secretPath('refused-target', 'refused'));
      await scene.ready('refused', 'SyncError', /refused by refused/, 'refused-home');
    }
    await scene.copied('refused-target', 'refused', { b: '2' }, 70_000);
    await scene.ready('refused', 'Synced', /(?:)/, 'refused-home');
  });

  it('is refused, and the mirror has only stopped selecting the namespace', async () => {
    await createTwoClaims('narrowed');
    await using _ = await refuse(scene.api, 'narrowed', { when: isTakeover('narrowed') });
    await scene.api.patch(mirrorPath('narrowed'), { spec: { destination: { namespaces: ['nowhere'] } } });
    await scene.gone(secretPath('narrowed-target', 'narrowed'));
    await scene.ready('narrowed', 'Synced');
    await scene.ready('narrowed', 'SyncError', /refused by narrowed/, 'narrowed-home');
  });

  it('fails permanently: the mirror is deleted after the deletion timeout, and not before', async () => {
    await createTwoClaims('trouble');
    const trouble = proxy.rule({
      match: { method: 'PATCH', path: secretPath('trouble-target', 'trouble') },
      fault: kubernetesFault(500),
    });
    await scene.api.delete(mirrorPath('trouble'));
    const there = async (): Promise<boolean> => (await scene.find('trouble-target', 'trouble')) !== undefined;
    await staysTrue(there, 1000, 'the copy is there');
    await scene.gone(mirrorPath('trouble'));
    await scene.copied('trouble-target', 'trouble', { b: '2' });
    assert.ok(trouble.hits > 3, `${trouble.hits} attempts to take over`);
  });

  it('fails for a while: the copy gets its new owner and is never deleted', async () => {
    await createTwoClaims('passing');
    const { uid } = (await scene.find('passing-target', 'passing')).metadata;
    proxy.rule({
      match: { method: 'PATCH', path: secretPath('passing-target', 'passing') },
      fault: kubernetesFault(503),
      times: 3,
    });
    await scene.api.delete(mirrorPath('passing'));
    const copy = await scene.copied('passing-target', 'passing', { b: '2' });
    assert.equal(copy.metadata.uid, uid);
    await scene.gone(mirrorPath('passing'));
  });
});
