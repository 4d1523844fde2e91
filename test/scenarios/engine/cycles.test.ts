/**
 * Rules whose copies lead back to their own source: Keyferry writes none of these copies, and each status names all
 * rules of the cycle.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { annotations, mirrorPath, MirrorScene, OWNED_BY, sameData, secretPath } from '../mirrors/support.ts';

const NAME = 'ring';
const SETTLE_MS = 1000;

let scene: MirrorScene;
let operator: Keyferry;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  operator = await scene.operator({ command: 'run', args: ['--replicator-allow-all'] });
});
after(() => scene.close());

const namespaceNames = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `${prefix}-${n}`);
const next = (namespaces: readonly string[], index: number): string =>
  namespaces[(index + 1) % namespaces.length] ?? '';

/**
 * Makes a ring of mirrors: the mirror in each namespace copies into the next namespace, and the last one into the
 * first.
 */
async function mirrorsAlong(namespaces: readonly string[], name = NAME): Promise<void> {
  for (const [index, namespace] of namespaces.entries()) {
    await scene.mirror(name, [next(namespaces, index)], {}, namespace);
  }
}

/**
 * Makes a ring of mirrors that copy a user's Secret, then deletes the Secret. The last mirror of the ring creates it
 * again as a copy. Now all Secrets are copies, so the ring is a cycle.
 */
async function closeRing(prefix: string, count: number): Promise<string[]> {
  const namespaces = namespaceNames(prefix, count);
  await scene.namespaces(...namespaces);
  await scene.secret(namespaces[0] ?? '', NAME, { a: '1' });
  await mirrorsAlong(namespaces);
  for (const namespace of namespaces.slice(1)) await scene.copied(namespace, NAME, { a: '1' });
  await scene.ready(NAME, 'Conflict', /(?:)/, namespaces.at(-1));
  await scene.api.delete(secretPath(namespaces[0] ?? '', NAME));
  for (const namespace of namespaces) await scene.ready(NAME, 'Cycle', /(?:)/, namespace);
  return namespaces;
}

async function versions(namespaces: readonly string[], name = NAME): Promise<string> {
  const found = await Promise.all(namespaces.map((namespace) => scene.find(namespace, name)));
  return found.map((one) => one?.metadata.resourceVersion).join();
}

async function assertNoWrites(namespaces: readonly string[], name = NAME): Promise<void> {
  const before = await versions(namespaces, name);
  await staysTrue(async () => (await versions(namespaces, name)) === before, SETTLE_MS, 'nothing is written');
}

async function change(namespace: string, values: Readonly<Record<string, string>>, name = NAME): Promise<void> {
  await scene.change(namespace, name, values);
}

describe('a ring of SecretMirrors', () => {
  it("mirrors in a ring without a user's Secret report Cycle, name all mirrors of the ring, and write nothing, not even over edits of users", async () => {
    const namespaces = await closeRing('named', 3);
    const titles = namespaces.map((namespace) => `SecretMirror ${namespace}/${NAME}`).join(' → ');
    for (const namespace of namespaces) {
      const { mirrorStatus } = await scene.ready(NAME, 'Cycle', new RegExp(titles), namespace);
      assert.equal(mirrorStatus, 'Error');
      await waitFor(
        async () =>
          (await scene.events(NAME, namespace)).some(
            ({ type, reason, message }) => type === 'Warning' && reason === 'Cycle' && message.includes(titles),
          ),
        { message: `the event in ${namespace}` },
      );
    }
    // If the ring copied, these two edits would overwrite each other again and again.
    await change('named-0', { a: 'x' });
    await change('named-1', { a: 'y' });
    await assertNoWrites(namespaces);
    const [first, second] = await Promise.all(namespaces.map((namespace) => scene.find(namespace, NAME)));
    assert.ok(sameData(first.data, scene.data({ a: 'x' })) && sameData(second.data, scene.data({ a: 'y' })));
  });

  it('after a restart, mirrors in a ring write nothing and keep their statuses', async () => {
    const namespaces = namespaceNames('named', 3);
    const before = await versions(namespaces);
    const status = JSON.stringify(await scene.status(NAME, 'named-1'));
    await operator.kill9();
    operator = await scene.operator({ command: 'run', args: ['--replicator-allow-all'] });
    await assertNoWrites(namespaces);
    assert.equal(await versions(namespaces), before);
    assert.equal(JSON.stringify(await scene.status(NAME, 'named-1')), status);
  });

  it('if one mirror of a ring is edited to copy to another namespace, the other mirrors copy again', async () => {
    const namespaces = namespaceNames('named', 3);
    await change('named-1', { a: 'z' });
    await scene.api.patch(mirrorPath(NAME, 'named-0'), { spec: { destination: { namespaces: ['nowhere'] } } });
    await scene.ready(NAME, 'Synced', /0 copies/, 'named-0');
    // The next mirror copies from this copy, so Keyferry does not delete it. Its content now reaches the other Secrets.
    await scene.copied('named-2', NAME, { a: 'z' });
    await scene.copied('named-0', NAME, { a: 'z' });
    await change('named-1', { a: 'new' });
    await scene.copied('named-0', NAME, { a: 'new' });
    for (const namespace of namespaces) await scene.ready(NAME, 'Synced', /(?:)/, namespace);
  });

  it('if a Secret in a ring of mirrors belongs to a user, the mirrors copy it, and only the mirror that would overwrite it reports Conflict', async () => {
    const namespaces = namespaceNames('own', 3);
    await scene.namespaces(...namespaces);
    await scene.secret('own-0', NAME, { a: '1' });
    await mirrorsAlong(namespaces);
    for (const namespace of namespaces.slice(1)) await scene.copied(namespace, NAME, { a: '1' });
    await change('own-0', { a: '2' });
    for (const namespace of namespaces.slice(1)) await scene.copied(namespace, NAME, { a: '2' });
    await scene.ready(NAME, 'Synced', /(?:)/, 'own-0');
    await scene.ready(NAME, 'Synced', /(?:)/, 'own-1');
    await scene.ready(NAME, 'Conflict', /(?:)/, 'own-2');
    await assertNoWrites(namespaces);
  });

  it('a mirror in a ring still copies into namespaces outside the ring', async () => {
    const namespaces = await closeRing('wide', 2);
    await scene.namespaces('wide-other');
    await scene.api.patch(mirrorPath(NAME, 'wide-0'), {
      spec: { destination: { namespaces: ['wide-1', 'wide-other'] } },
    });
    await scene.copied('wide-other', NAME, { a: '1' });
    await change('wide-0', { a: '2' });
    await scene.copied('wide-other', NAME, { a: '2' });
    await scene.ready(NAME, 'Cycle', /namespace wide-1:/, 'wide-0');
    await assertNoWrites(namespaces);
  });
});

describe('a mirror that may not write the source of another one', () => {
  it('a mirror back to a retained copy reports Conflict, and the mirror of that copy goes on copying', async () => {
    await scene.namespaces('kept-home', 'kept-a', 'kept-b');
    await scene.secret('kept-home', NAME, { a: '1' });
    await scene.mirror(NAME, ['kept-a'], { deletePolicy: 'retain' }, 'kept-home');
    await scene.copied('kept-a', NAME, { a: '1' });
    await scene.api.delete(mirrorPath(NAME, 'kept-home'));
    await waitFor(async () => (await scene.api.find(mirrorPath(NAME, 'kept-home'))) === undefined);
    assert.ok((await scene.find('kept-a', NAME)).metadata.annotations[OWNED_BY]);
    await scene.mirror(NAME, ['kept-b'], {}, 'kept-a');
    await scene.copied('kept-b', NAME, { a: '1' });
    await scene.mirror(NAME, ['kept-a'], {}, 'kept-b');
    await scene.ready(NAME, 'Conflict', /kept-a/, 'kept-b');
    await change('kept-a', { a: '2' });
    await scene.copied('kept-b', NAME, { a: '2' });
    await scene.ready(NAME, 'Synced', /(?:)/, 'kept-a');
    assert.ok(sameData((await scene.find('kept-a', NAME)).data, scene.data({ a: '2' })));
  });
});

describe('mirrors in a chain, and two ways of mirrors to one target', () => {
  it('mirrors in a chain, and two mirrors that reach one target in different ways, do not report Cycle', async () => {
    await scene.namespaces('top', 'left', 'right', 'bottom');
    await scene.secret('top', NAME, { a: '1' });
    await scene.mirror(NAME, ['left', 'right'], {}, 'top');
    const { metadata } = await scene.mirror(NAME, ['bottom'], {}, 'left');
    await scene.copied('bottom', NAME, { a: '1' });
    // `creationTimestamp` has whole seconds. So the next mirror is created at least 1 s later; otherwise either mirror
    // could count as the older one.
    await waitFor(() => Date.now() >= Date.parse(metadata.creationTimestamp) + 1000);
    await scene.mirror(NAME, ['bottom'], {}, 'right');
    await scene.ready(NAME, 'Conflict', /(?:)/, 'right');
    await change('top', { a: '2' });
    for (const namespace of ['left', 'right', 'bottom']) await scene.copied(namespace, NAME, { a: '2' });
    await scene.ready(NAME, 'Synced', /(?:)/, 'top');
    await scene.ready(NAME, 'Synced', /(?:)/, 'left');
  });
});

/** Waits for a Warning event on the Secret in a namespace. */
async function waitForWarning(namespace: string, why: string, words: string): Promise<void> {
  const isExpected = ({ involvedObject, type, reason, message }: Json): boolean =>
    involvedObject.kind === 'Secret' && type === 'Warning' && reason === why && message.includes(words);
  const path = `/api/v1/namespaces/${namespace}/events`;
  let seen: Json[] = [];
  await waitFor(async () => (seen = await scene.api.list(path)).some(isExpected), {
    message: () =>
      `${why} in ${namespace}; there are ${seen.map((one) => `${one.reason} ${one.message}`).join('; ')}\n${scene.tail()}`,
  });
}

describe('a mirror and a replicate-from that lead back to each other', () => {
  const pulls = (from: string): Json => annotations({ 'k8s-replicator/replicate-from': from });

  it('if a mirror and a replicate-from copy back to each other, they write nothing, and each names the other', async () => {
    const namespaces = ['mixed-a', 'mixed-b'];
    await scene.namespaces(...namespaces);
    await scene.secret('mixed-a', NAME, { a: '1' });
    await scene.mirror(NAME, ['mixed-b'], {}, 'mixed-a');
    await scene.copied('mixed-b', NAME, { a: '1' });
    await scene.api.patch(secretPath('mixed-a', NAME), pulls(`mixed-b/${NAME}`));
    await scene.ready(NAME, 'Cycle', /Secret mixed-a\/ring → SecretMirror mixed-a\/ring/, 'mixed-a');
    await waitForWarning('mixed-a', 'Cycle', 'SecretMirror mixed-a/ring');
    await change('mixed-a', { a: 'x' });
    await change('mixed-b', { a: 'y' });
    await assertNoWrites(namespaces);
    await scene.api.patch(secretPath('mixed-a', NAME), annotations({ 'k8s-replicator/replicate-from': null }));
    await scene.copied('mixed-b', NAME, { a: 'x' });
    await scene.ready(NAME, 'Synced', /(?:)/, 'mixed-a');
  });

  it('if a source denies a pull that would lead back to a mirror, this is no cycle, and the mirror goes on copying', async () => {
    await scene.namespaces('denied-a', 'denied-b');
    await scene.secret('denied-a', NAME, { a: '1' });
    await scene.mirror(NAME, ['denied-b'], {}, 'denied-a');
    await scene.copied('denied-b', NAME, { a: '1' });
    await scene.api.patch(secretPath('denied-b', NAME), annotations({ 'k8s-replicator/replication-allowed': 'false' }));
    await scene.api.patch(secretPath('denied-a', NAME), pulls(`denied-b/${NAME}`));
    await waitForWarning('denied-a', 'Denied', 'denied-b/ring');
    await change('denied-a', { a: '2' });
    await scene.copied('denied-b', NAME, { a: '2' });
    await scene.ready(NAME, 'Synced', /(?:)/, 'denied-a');
  });

  it("if a mirror and two replicate-froms lead back to the mirror's source, they are a cycle", async () => {
    const namespaces = ['push-a', 'push-b'];
    await scene.namespaces(...namespaces);
    // push-b/ring → push-a/ring (by the mirror) → push-a/second (by a pull) → push-b/ring (by a pull)
    await scene.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: 'push-b', name: NAME },
      data: scene.data({ a: '1' }),
    });
    await scene.mirror(NAME, ['push-a'], {}, 'push-b');
    await scene.copied('push-a', NAME, { a: '1' });
    await scene.secret('push-a', 'second', { a: '0' }, pulls(NAME));
    const second = secretPath('push-a', 'second');
    await waitFor(async () => sameData((await scene.api.get(second)).data, scene.data({ a: '1' })));
    await scene.api.patch(secretPath('push-b', NAME), pulls('push-a/second'));
    await scene.ready(
      NAME,
      'Cycle',
      /Secret push-a\/second → Secret push-b\/ring → SecretMirror push-b\/ring/,
      'push-b',
    );
    await change('push-a', { a: 'x' }, 'second');
    await change('push-b', { a: 'y' });
    await change('push-a', { a: 'z' });
    await assertNoWrites(namespaces);
    assert.ok((await scene.find('push-a', NAME)).metadata.annotations[OWNED_BY]);
    assert.ok(sameData((await scene.api.get(second)).data, scene.data({ a: 'x' })));
  });
});
