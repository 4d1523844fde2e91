/**
 * When a rule is deleted or no longer selects a copy, another rule that claims the copy takes it over: the copy stays
 * the same object. If that fails, the deletion still goes on and deletes the copy.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';

import type { FaultProxy } from '../../servers/fault-proxy.ts';
import { proxied } from '../../servers/proxied.ts';
import { kubernetesFault } from '../../servers/fault-rules.ts';
import type { Watcher } from '../../support/watcher.ts';
import type { Json } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { HOME, mirrorPath, MirrorScene, OWNED_BY, secretPath } from '../mirrors/support.ts';
import { refuse } from './admission.ts';

const PUSH = 'k8s-replicator/replicate-to';

let scene: MirrorScene;
let proxy: FaultProxy;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  const through = await proxied(scene.plane);
  ({ proxy } = through);
  await scene.operator({ kubeconfig: through.kubeconfig, args: ['--controllers=mirrors,replicator'] });
});
afterEach(() => proxy.clearRules());
after(async () => {
  await scene.close();
  await proxy.stop();
});

/**
 * Makes two mirrors with one target. The mirror in HOME owns the copy, and the mirror in `<name>-home` waits for it.
 */
async function createTwoClaims(name: string): Promise<void> {
  await scene.namespaces(`${name}-home`, `${name}-target`);
  await scene.secret(HOME, name, { a: '1' });
  const { metadata } = await scene.mirror(name, [`${name}-target`]);
  await scene.copied(`${name}-target`, name, { a: '1' });
  // `creationTimestamp` has whole seconds. So the second mirror is created at least 1 s later; otherwise either mirror
  // could count as the older one.
  await waitFor(() => Date.now() >= Date.parse(metadata.creationTimestamp) + 1000);
  await scene.secret(`${name}-home`, name, { b: '2' });
  await scene.mirror(name, [`${name}-target`], {}, `${name}-home`);
  await scene.ready(name, 'Conflict', /(?:)/, `${name}-home`);
}

const isTakeover = (name: string): string =>
  `object.metadata.?annotations['${OWNED_BY}'].orValue('') == '${name}-home/${name}'`;

describe('the takeover of a copy when its mirror is deleted', () => {
  it('if a mirror is deleted, and the server does not let another mirror take over its copy, the copy is deleted, and made again when the server permits that', async () => {
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

  it('if the server refuses the takeover of a copy that its mirror no longer selects, the copy is deleted', async () => {
    await createTwoClaims('narrowed');
    await using _ = await refuse(scene.api, 'narrowed', { when: isTakeover('narrowed') });
    await scene.api.patch(mirrorPath('narrowed'), { spec: { destination: { namespaces: ['nowhere'] } } });
    await scene.gone(secretPath('narrowed-target', 'narrowed'));
    await scene.ready('narrowed', 'Synced');
    await scene.ready('narrowed', 'SyncError', /refused by narrowed/, 'narrowed-home');
  });

  it("if the takeover of a deleted mirror's copy by another mirror keeps failing, the deleted mirror is gone after the deletion timeout", async () => {
    await createTwoClaims('trouble');
    const trouble = proxy.rule({
      match: { method: 'PATCH', path: secretPath('trouble-target', 'trouble') },
      fault: kubernetesFault(500),
    });
    await scene.api.delete(mirrorPath('trouble'));
    await waitFor(() => trouble.hits >= 3, { message: 'three attempts to take over' });
    assert.ok((await scene.find('trouble-target', 'trouble')) !== undefined, 'the copy is there after three attempts');
    await scene.gone(mirrorPath('trouble'));
    await scene.copied('trouble-target', 'trouble', { b: '2' });
    assert.ok(trouble.hits > 3, `${trouble.hits} attempts to take over`);
  });

  it("if the takeover of a deleted mirror's copy by another mirror fails three times, the fourth try succeeds, and the copy is never deleted", async () => {
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

/** Watches the Secrets of a namespace. `seen` lists the events, for example `ADDED name`. */
async function watchSecrets(namespace: string): Promise<Watcher & { readonly seen: string[] }> {
  const seen: string[] = [];
  const watcher = await scene.api.watch(`/api/v1/namespaces/${namespace}/secrets`, ({ type, object }) =>
    seen.push(`${type} ${object.metadata.name}`),
  );
  return Object.assign(watcher, { seen });
}

/** Time between two objects of one `kubectl apply` or of a Helm release, ms. Keyferry waits much longer. */
const BETWEEN_EDITS_MS = 50;

const isNotModified = (event: string): boolean => !event.startsWith('MODIFIED');

/** Waits until the copy of an annotated Secret has only this value. */
async function pushed(namespace: string, key: string, value: string, name = 'one'): Promise<Json> {
  const data = JSON.stringify(scene.data({ [key]: value }));
  return await waitFor(
    async () => {
      const copy = await scene.find(namespace, name);
      return JSON.stringify(copy?.data) === data && copy;
    },
    { message: () => `${namespace}/${name} to have ${key}\n${scene.tail()}` },
  );
}

describe('a copy that its rule no longer selects, and that another rule claims', () => {
  it('if another mirror takes over a copy that its mirror no longer selects, the copy stays the same object', async () => {
    await createTwoClaims('given');
    const { uid } = (await scene.find('given-target', 'given')).metadata;
    await scene.api.patch(mirrorPath('given'), { spec: { destination: { namespaces: ['nowhere'] } } });
    const copy = await scene.copied('given-target', 'given', { b: '2' });
    assert.equal(copy.metadata.uid, uid);
    assert.equal(copy.metadata.annotations[OWNED_BY], 'given-home/given');
    await scene.ready('given', 'Synced', /(?:)/, 'given-home');
  });

  for (const order of ['one after the other', 'at the same time'] as const) {
    const edit = async (edits: readonly (() => Promise<unknown>)[]): Promise<void> => {
      if (order === 'at the same time') await Promise.all(edits.map((one) => one()));
      else {
        for (const one of edits) {
          await one();
          await setTimeout(BETWEEN_EDITS_MS);
        }
      }
    };

    it(`if two mirrors swap their sources (${order}), both copies stay the same objects and swap their owners`, async () => {
      const target = `swap-${order.split(' ')[0]}`;
      await scene.namespaces(target);
      const names = [`${target}-a`, `${target}-b`] as const;
      for (const name of names) {
        await scene.secret(HOME, name, { [name]: '1' });
        await scene.mirror(name, [target]);
        await scene.copied(target, name, { [name]: '1' });
      }
      await using watch = await watchSecrets(target);
      const swaps = [names, names.toReversed()];
      await edit(
        swaps.map(([mirror, copy]) => async () => {
          await scene.api.patch(mirrorPath(mirror), { spec: { source: { name: copy } } });
        }),
      );
      for (const [mirror, copy] of swaps) {
        await waitFor(
          async () => (await scene.find(target, copy))?.metadata.annotations[OWNED_BY] === `${HOME}/${mirror}`,
          { message: () => `${copy} to be of ${mirror}: ${watch.seen.join(', ')}\n${scene.tail()}` },
        );
        await scene.ready(mirror, 'Synced');
      }
      assert.deepEqual(watch.seen.filter(isNotModified), []);
    });

    it(`if two annotated Secrets swap their targets and change their values (${order}), both copies stay the same objects and swap their content`, async () => {
      const target = `swap-pushed-${order.split(' ')[0]}`;
      await scene.namespaces(target);
      const pushTo = (name: string): Json => ({ metadata: { annotations: { [PUSH]: `${target}/${name}` } } });
      const names = ['one', 'two'] as const;
      for (const name of names) {
        await scene.secret(HOME, `${target}-${name}`, { [name]: '1' }, pushTo(name));
        await pushed(target, name, '1', name);
      }
      await using watch = await watchSecrets(target);
      const swaps = [names, names.toReversed()];
      await edit(
        swaps.map(([source, copy]) => async () => {
          // Keyferry reads the new value, and meanwhile the rule lets the copy go.
          const patch = { ...pushTo(copy), data: scene.data({ [source]: '2' }) };
          await scene.api.patch(secretPath(HOME, `${target}-${source}`), patch);
        }),
      );
      for (const [source, copy] of swaps) await pushed(target, source, '2', copy);
      assert.deepEqual(watch.seen.filter(isNotModified), []);
    });
  }

  for (const how of ['is deleted', 'names another target']) {
    it(`if two annotated Secrets have one target and the first ${how}, the second takes over the same object`, async () => {
      const target = `pushed-${how.split(' ')[0]}`;
      await scene.namespaces(target);
      const annotations = { [PUSH]: `${target}/one` };
      await scene.secret(HOME, `${target}-a`, { a: '1' }, { metadata: { annotations } });
      const { metadata } = await pushed(target, 'a', '1');
      await scene.secret(HOME, `${target}-b`, { b: '2' }, { metadata: { annotations } });
      await waitFor(
        async () =>
          (await scene.api.list('/api/v1/events')).some((event) => event.involvedObject.name === `${target}-b`),
        { message: () => `the conflict of the second\n${scene.tail()}` },
      );
      const first = secretPath(HOME, `${target}-a`);
      if (how === 'is deleted') await scene.api.delete(first);
      else {
        const other = { [PUSH]: `${target}/other` };
        await scene.api.patch(first, { metadata: { annotations: other } });
      }
      const copy = await pushed(target, 'b', '2');
      assert.equal(copy.metadata.uid, metadata.uid);
    });
  }
});
