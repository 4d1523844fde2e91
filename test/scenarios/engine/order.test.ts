/**
 * Namespace, source, rule, and an object with the name of the copy are created in every order, fast and slowly. The
 * result is always the same.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { rowsOf } from '../../support/long.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { COPY_LABEL, HOME, MirrorScene, OWNED_BY, secretPath } from '../mirrors/support.ts';
import { annotate } from '../replicator/support.ts';

/** Pauses between the steps, ms. The slow pace gives each step time to take effect. */
const PAUSES = { fast: 0, slowly: 250 } as const;
const SETTLE_MS = 500;

type Step = () => Promise<unknown>;

const comesAfter = (order: readonly string[], step: string, other: string): boolean =>
  !order.includes(step) || order.indexOf(other) < order.indexOf(step);

/**
 * All orders of the steps, but a namespace always comes before the objects in it, and a source before the change of its
 * permission.
 */
function orders(steps: readonly string[]): string[][] {
  if (steps.length === 0) return [[]];
  return steps
    .flatMap((first) => orders(steps.filter((step) => step !== first)).map((rest) => [first].concat(rest)))
    .filter((order) => comesAfter(order, 'target', 'namespace') && comesAfter(order, 'permission', 'source'));
}

let scene: MirrorScene;
before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  await scene.operator({ args: ['--controllers=mirrors,replicator'] });
});
after(() => scene.close());

let count = 0;
/**
 * Makes one test for each order and pace. `what` is the expected result, for the name of the test; `steps` and `check`
 * get the name of the test's objects.
 */
function each(
  what: string,
  list: readonly string[][],
  steps: (name: string) => Readonly<Record<string, Step>>,
  check: (name: string) => Promise<void>,
): void {
  for (const order of list) {
    for (const [pace, pauseMs] of rowsOf(Object.entries(PAUSES))) {
      it(`${what}, in the order ${order.join(', ')} (${pace})`, async () => {
        const name = `order-${(count += 1)}`;
        const all = steps(name);
        for (const step of order) {
          await all[step]?.();
          if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
        }
        await check(name);
      });
    }
  }
}

const namespace = (name: string): Promise<void> => scene.namespaces(name);
const source = (name: string, metadata: Json = {}): Promise<Json> => scene.secret(HOME, name, { a: '1' }, { metadata });
const mirror = (name: string): Promise<Json> => scene.mirror(name, [`${name}|nowhere`]);

describe('a mirror, and a copy that is restored from a backup', { concurrency: 8 }, () => {
  const restored = (name: string): Json => ({
    metadata: { labels: { [COPY_LABEL]: 'mirrors' }, annotations: { [OWNED_BY]: `${HOME}/${name}` } },
  });
  each(
    'a copy restored from a backup becomes the copy of its mirror',
    orders(['namespace', 'source', 'mirror', 'target']),
    (name) => ({
      namespace: () => namespace(name),
      source: () => source(name),
      mirror: () => mirror(name),
      // In the fast orders, Keyferry may have made the copy already. The server then answers 409.
      target: () =>
        scene.secret(name, name, { a: 'old' }, restored(name)).catch((error: Json) => assert.equal(error.status, 409)),
    }),
    async (name) => {
      await scene.copied(name, name, { a: '1' });
      await scene.ready(name, 'Synced', /^1 copy/);
    },
  );
});

describe('a mirror, and an object of a user', { concurrency: 8 }, () => {
  const theirs = new Map<string, Json>();
  each(
    "a user's object with the name of a copy stays, and the mirror makes the copy once the user deletes that object",
    // The user's object is never the last step, because Keyferry would have made the copy before it.
    orders(['namespace', 'target', 'source', 'mirror']).filter((order) => order.at(-1) !== 'target'),
    (name) => ({
      namespace: () => namespace(name),
      source: () => source(name),
      mirror: () => mirror(name),
      target: async () => theirs.set(name, await scene.secret(name, name, { theirs: 'x' })),
    }),
    async (name) => {
      await scene.ready(name, 'Conflict');
      const untouched = async (): Promise<boolean> =>
        JSON.stringify(await scene.find(name, name)) === JSON.stringify(theirs.get(name));
      await staysTrue(untouched, SETTLE_MS, 'the object of the user');
      await scene.api.delete(secretPath(name, name));
      await scene.copied(name, name, { a: '1' });
      await scene.ready(name, 'Synced');
    },
  );
});

describe('annotations that push, in every order of events', { concurrency: 8 }, () => {
  each(
    'an annotation that pushes writes its copy, also over a copy that was restored from a backup',
    orders(['namespace', 'source', 'target']),
    (name) => ({
      namespace: () => namespace(name),
      source: () => source(name, { annotations: annotate({ 'replicate-to-namespaces': `(${name})` }) }),
      // A copy from a backup, with its mark. If Keyferry has made the copy already, the server answers 409.
      target: () =>
        scene
          .secret(
            name,
            name,
            { a: 'old' },
            { metadata: { annotations: annotate({ 'replicated-by': `${HOME}/${name}` }) } },
          )
          .catch((error: Json) => assert.equal(error.status, 409)),
    }),
    async (name) => {
      await waitFor(async () => (await scene.find(name, name))?.data?.a === scene.value('1'), { message: 'the copy' });
    },
  );
});

describe('annotations that pull, in every order of events', { concurrency: 8 }, () => {
  each(
    'an object with replicate-from is filled',
    orders(['namespace', 'source', 'target', 'permission']),
    (name) => ({
      namespace: () => namespace(name),
      source: () => source(name),
      permission: () =>
        scene.api.patch(secretPath(HOME, name), {
          metadata: { annotations: annotate({ 'replication-allowed': 'true' }) },
        }),
      target: () =>
        scene.secret(
          name,
          'pulls',
          {},
          { metadata: { annotations: annotate({ 'replicate-from': `${HOME}/${name}` }) } },
        ),
    }),
    async (name) => {
      await waitFor(async () => (await scene.find(name, 'pulls'))?.data?.a === scene.value('1'), {
        message: 'the data',
      });
    },
  );
});
