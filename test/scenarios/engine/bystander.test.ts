/**
 * A burst of work for the rules of one namespace, in hundreds of target namespaces, does not delay an edit in another
 * namespace. On a machine of any speed, only a few of the waiting targets may be written before the edit arrives.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { longDescribe } from '../../support/long.ts';
import type { Watcher } from '../../support/watcher.ts';
import { waitFor } from '../../support/wait-for.ts';
import { annotations, labels, mirrorPath, MirrorScene, secretPath } from '../mirrors/support.ts';

const RULES = Array.from({ length: 4 }, (_, index) => `noise-${index}`);
const CROWD = Array.from({ length: 150 }, (_, index) => `crowd-${index}`);
const BURST = RULES.length * CROWD.length;
/** An edit counts only if at least this part of the burst waits when it is made. */
const MANY = 0.25;
/** The sources that each namespace of the crowd pulls. */
const PULLED = RULES.slice(0, 3).map((name) => `pulled-${name}`);
const PULLS = PULLED.length * CROWD.length;
/**
 * The most targets of the burst that may be written before an edit arrives: a few rounds of parallel writes. With a turn
 * for each namespace of the crowd there would be 150.
 */
const OVERTAKING = 40;
const BURST_MS = 180_000;

let scene: MirrorScene;
let watcher: Watcher;
/** The resourceVersions at which copies in the crowd were created or deleted, or objects there filled. */
const written: number[] = [];

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  const crowd = CROWD.map((name) => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, ...labels({ in: 'crowd' }).metadata },
  }));
  await scene.api.createMany(crowd);
  await scene.namespaces('noisy', 'quiet', 'reader');
  await scene.operator();
  watcher = await scene.api.watch('/api/v1/secrets', ({ type, object }) => {
    const { namespace = '', name, resourceVersion } = object?.metadata ?? {};
    const counts = (type === 'MODIFIED') === PULLED.includes(name);
    if (counts && namespace.startsWith('crowd-')) written.push(Number(resourceVersion));
  });
});
after(async () => {
  await watcher.stop();
  await scene.close();
});

/**
 * Edits `quiet/<name>` again and again during a burst, and checks that its copy in `reader` is never far behind.
 * @param size number of writes in the burst
 */
async function assertNotDelayed(name: string, burst: () => Promise<unknown>, size = BURST): Promise<void> {
  const from = written.length;
  const done = (): number => written.length - from;
  await burst();
  const overtaking: number[] = [];
  while (size - done() >= size * MANY) {
    const value = `edit ${overtaking.length}`;
    await waitFor(() => done() > 0, { message: 'the burst to begin' });
    const edited = await scene.change('quiet', name, { a: value });
    const arrived = await arrival(name, value);
    const [start, end] = [edited, arrived].map(({ metadata }: Json) => Number(metadata.resourceVersion));
    // The watch of this test may be late.
    await waitFor(() => done() === size || written.some((version) => version > end!), { message: 'the next write' });
    overtaking.push(written.filter((version) => version > start! && version < end!).length);
  }
  await waitFor(() => done() === size, { timeoutMs: BURST_MS, message: () => `${size} writes; ${done()} are done` });
  assert.notEqual(overtaking.length, 0, 'never enough of the burst waited');
  const median = overtaking.toSorted((a, b) => a - b)[Math.floor(overtaking.length / 2)]!;
  assert.ok(median <= OVERTAKING, `${overtaking.join(', ')} of the burst were written before an edit arrived`);
}

/** Waits until the copy of `quiet/<name>` has this value, and returns it. */
async function arrival(name: string, value: string): Promise<Json> {
  return await waitFor(
    async () => {
      const copy = await scene.find('reader', name);
      return copy?.data?.a === scene.value(value) && copy;
    },
    { intervalMs: 10, message: () => `${value} to arrive\n${scene.tail()}` },
  );
}

describe('SecretMirrors that select namespaces by a label', () => {
  const select = (value: string): Json => ({
    destination: { namespaces: undefined, namespaceSelector: { matchLabels: { in: value } } },
  });
  const edit = async (spec: Json): Promise<unknown> =>
    await Promise.all(RULES.map(async (name) => await scene.api.patch(mirrorPath(name, 'noisy'), { spec })));

  before(async () => {
    for (const name of RULES) {
      await scene.secret('noisy', name, { a: 'noise' });
      await scene.mirror(name, [], select('nowhere'), 'noisy');
    }
    await scene.secret('quiet', 'mirrored', { a: '0' });
    await scene.mirror('mirrored', ['reader'], {}, 'quiet');
    await arrival('mirrored', '0');
  });

  it(`${BURST} new copies do not delay an edit in another namespace`, async () => {
    await assertNotDelayed('mirrored', async () => await edit(select('crowd')));
  });

  it(`${BURST} deletions of copies do not delay an edit in another namespace`, async () => {
    await assertNotDelayed('mirrored', async () => await edit(select('nowhere')));
  });
});

longDescribe('annotated Secrets', {}, () => {
  const push = async (pattern: string): Promise<unknown> => {
    const patch = annotations({ 'k8s-replicator/replicate-to-namespaces': pattern });
    return await Promise.all(
      RULES.map(async (name) => await scene.api.patch(secretPath('noisy', `push-${name}`), patch)),
    );
  };

  before(async () => {
    for (const name of RULES) await scene.secret('noisy', `push-${name}`, { a: 'noise' });
    await scene.secret(
      'quiet',
      'pushed',
      { a: '0' },
      { metadata: annotations({ 'k8s-replicator/replicate-to': 'reader/pushed' }).metadata },
    );
    await arrival('pushed', '0');
  });

  it(`${BURST} new copies do not delay an edit in another namespace`, async () => {
    await assertNotDelayed('pushed', async () => await push('crowd-[0-9]+'));
  });

  it(`${BURST} deletions of copies do not delay an edit in another namespace`, async () => {
    await assertNotDelayed('pushed', async () => await push('nowhere'));
  });
});

longDescribe('Secrets that are filled from another namespace', {}, () => {
  before(async () => {
    const allowed = { metadata: annotations({ 'k8s-replicator/replication-allowed': 'true' }).metadata };
    for (const name of PULLED) await scene.secret('noisy', name, { a: '0' }, allowed);
    const pulls = CROWD.flatMap((namespace) =>
      PULLED.map((name) => {
        const { metadata } = annotations({ 'k8s-replicator/replicate-from': `noisy/${name}` });
        return { apiVersion: 'v1', kind: 'Secret', metadata: { ...metadata, namespace, name } };
      }),
    );
    const from = written.length;
    await scene.api.createMany(pulls);
    await waitFor(() => written.length - from === PULLS, { timeoutMs: BURST_MS, message: 'all to be filled' });
    const beside = annotations({ 'k8s-replicator/replicate-to': 'reader/beside' });
    await scene.secret('quiet', 'beside', { a: '0' }, { metadata: beside.metadata });
    await arrival('beside', '0');
  });

  const burst = async (change: (name: string) => Promise<unknown>): Promise<void> =>
    await assertNotDelayed('beside', async () => await Promise.all(PULLED.map(change)), PULLS);

  it(`edits of ${PULLED.length} sources that fill ${PULLS} Secrets do not delay an edit in another namespace`, async () => {
    await burst(async (name) => await scene.change('noisy', name, { a: 'noise' }));
  });

  it(`deletions of ${PULLED.length} sources, which empty ${PULLS} Secrets, do not delay an edit in another namespace`, async () => {
    await burst(async (name) => await scene.api.delete(secretPath('noisy', name)));
  });
});
