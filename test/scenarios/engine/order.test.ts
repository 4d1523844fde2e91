/** Namespace, source, rule and an object in the place of the copy: the result is the same in every order, fast or slow. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { COPY_LABEL, HOME, MirrorScene, OWNED_BY, secretPath } from '../mirrors/support.ts';
import { annotate } from '../replicator/support.ts';

/** The slow pace lets each step take effect before the next. */
const PAUSES = { fast: 0, slowly: 250 } as const;
const SETTLE_MS = 500;

type Step = () => Promise<unknown>;

const comesAfter = (order: readonly string[], step: string, other: string): boolean =>
  !order.includes(step) || order.indexOf(other) < order.indexOf(step);

/** All orders of the steps in which the namespace of an object, or the object that is changed, is created first. */
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
/** One test of `what` for each order and pace. `steps` and `check` get the name of all its objects. */
function each(
  what: string,
  list: readonly string[][],
  steps: (name: string) => Readonly<Record<string, Step>>,
  check: (name: string) => Promise<void>,
): void {
  for (const order of list) {
    for (const [pace, pauseMs] of Object.entries(PAUSES)) {
      it(`${what}, in the order ${order.join(', ')}, ${pace}`, async () => {
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
    'a mirror, and a copy that is restored from a backup',
    orders(['namespace', 'source', 'mirror', 'target']),
    (name) => ({
      namespace: () => namespace(name),
      source: () => source(name),
      mirror: () => mirror(name),
      // In the fast case the copy may exist already.
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
    'a mirror, and an object of a user',
    // If this step came last, a copy would exist already.
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

describe('a push', { concurrency: 8 }, () => {
  each(
    'a push',
    orders(['namespace', 'source', 'target']),
    (name) => ({
      namespace: () => namespace(name),
      source: () => source(name, { annotations: annotate({ 'replicate-to-namespaces': `(${name})` }) }),
      // Restored from a backup, with the mark.
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

describe('a pull', { concurrency: 8 }, () => {
  each(
    'a pull',
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
