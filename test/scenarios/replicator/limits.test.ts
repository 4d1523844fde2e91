/**
 * A user who has permission to write in one namespace cannot stop the replicator with hostile annotations: its probes
 * answer, its memory stays bounded, and other users get their copies in time, also after a restart.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { longIt } from '../../support/long.ts';
import { staysResponsive } from '../../support/probe-watch.ts';
import { annotate, KINDS, type KindScene, ReplicatorScene } from './support.ts';

const [SECRETS] = KINDS;

const list = (count: number, item: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => item(index)).join(',');

let scene: ReplicatorScene;
let users: KindScene;
let operator: Keyferry;
before(async () => {
  scene = await ReplicatorScene.open({ controllerManager: false });
  await scene.namespaces('good', 'bad', 'ring', 'team-1', 'team-2');
  assert.ok(SECRETS !== undefined);
  users = scene.of(SECRETS);
  operator = await scene.operator();
});
after(() => scene.close());

/** Creates many Secrets in one namespace at once. */
async function createMany(
  namespace: string,
  count: number,
  annotations: (index: number) => Record<string, string>,
  name = 's',
): Promise<void> {
  const objects = Array.from({ length: count }, (_, index): Json => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace, name: `${name}-${index}`, annotations: annotations(index) },
    data: users.data({ a: 'x' }),
  }));
  await scene.api.createMany(objects);
}

let goods = 0;
/** Checks that a Secret of a user in another namespace is copied as usual. */
async function assertOthersServed(): Promise<void> {
  goods += 1;
  await users.create(`good/g-${goods}`, { a: String(goods) }, { 'replicate-to-namespaces': 'team-.*' });
  for (const team of ['team-1', 'team-2']) await users.holds(`${team}/g-${goods}`, { a: String(goods) });
}

describe('an author of annotated Secrets', () => {
  it('a Secret that requests 20,000 names in 20,000 namespaces gets a Warning event, and delays no Secret of others', async (t) => {
    await staysResponsive(t, operator, async () => {
      const names = list(20_000, (index) => index.toString(36));
      await users.create('bad/product', { a: 'x' }, { 'replicate-to': names, 'replicate-to-namespaces': names });
      const long = await users.warning('bad/product', 'IllFormed');
      assert.match(long.message, /replicate-to: it has \d+ characters; the maximum is 32768/u);
      const short = list(1000, (index) => index.toString(36));
      await users.create('bad/short', { a: 'x' }, { 'replicate-to': short, 'replicate-to-namespaces': short });
      assert.match(
        (await users.warning('bad/short', 'IllFormed')).message,
        /1000000 targets \(1000 names × 1000 namespaces\) are more than the limit of 10000 for one object/u,
      );
      await assertOthersServed();
    });
  });

  longIt(
    'hundreds of Secrets in one namespace with too many targets or slow patterns delay no Secret of others',
    async (t) => {
      await staysResponsive(t, operator, async () => {
        const over = list(20_000, (index) => index.toString(36));
        await createMany('bad', 150, () => annotate({ 'replicate-to': over, 'replicate-to-namespaces': over }));
        // Each Secret has as many targets as one Secret may have. Their namespaces do not exist, so every pattern is
        // matched without a result.
        const under = list(100, (index) => `n-${index}`);
        await createMany(
          'bad',
          200,
          (index) =>
            annotate({
              'replicate-to': under,
              'replicate-to-namespaces': `${list(99, (other) => `none-${index}-${other}`)},none`,
            }),
          'under',
        );
        await createMany(
          'bad',
          100,
          (index) => annotate({ 'replicate-to-namespaces': `${'([a-z0-9-]{1,30}){1,30}.*x'.repeat(8)}${index}` }),
          'slow',
        );
        // As many and as slow patterns as a Secret may have.
        const slowest = (index: number): string => list(30, (other) => `(?:[a-z0-9-]*[a-f])*.*x${index}-${other}`);
        await createMany('bad', 100, (index) => annotate({ 'replicate-to-namespaces': slowest(index) }), 'slowest');
        await createMany(
          'bad',
          200,
          (index) => ({ ...annotate({ 'replicate-to': 'x' }), note: `${index}${'x'.repeat(200_000)}` }),
          'noted',
        );
        await assertOthersServed();
        // The first Secrets use up the limit for all annotated objects of the namespace.
        assert.match(
          (await users.warning('bad/under-150', 'TooManyTargets')).message,
          /the annotated objects in namespace bad may have 10000 targets in total, and with this one they would have 2\d{4}/u,
        );
        await scene.namespaces(...Array.from({ length: 10 }, (_, index) => `late-${index}`));
        await assertOthersServed();
      });
    },
  );

  it('a thousand Secrets that request the same target delay no Secret of others', async (t) => {
    await staysResponsive(t, operator, async () => {
      await createMany('ring', 1000, () => annotate({ 'replicate-to': 'team-1/wanted' }));
      await users.holds('team-1/wanted', { a: 'x' });
      await assertOthersServed();
    });
  });

  longIt(
    'hostile annotations in one namespace do not prevent a restart, and the restart deletes nothing',
    async (t) => {
      await operator.stop();
      operator = await scene.started();
      await staysResponsive(t, operator, async () => {
        await operator.ready(240_000);
        await assertOthersServed();
        assert.equal((await operator.metric('keyferry_writes_total', { verb: 'delete' })) ?? 0, 0);
      });
    },
  );
});
