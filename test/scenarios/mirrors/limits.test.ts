/**
 * A user who has permission to write SecretMirrors in one namespace cannot stop the operator with hostile mirrors: its
 * probes answer, its memory stays bounded, and other users get their copies in time, also after a restart.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { longIt } from '../../support/long.ts';
import { staysResponsive } from '../../support/probe-watch.ts';
import { waitFor } from '../../support/wait-for.ts';
import { HOME, labels, MirrorScene, secretPath } from './support.ts';

const MIRRORS = 20;

let scene: MirrorScene;
let operator: Keyferry;
before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  await scene.namespaces('bad', 'team-1', 'team-2');
  operator = await scene.operator({ command: 'mirrors' });
});
after(() => scene.close());

/** Creates many mirrors in one namespace at once. */
async function createMany(name: string, patterns: (index: number) => readonly string[]): Promise<void> {
  const mirrors = Array.from({ length: MIRRORS }, (_, index): Json => ({
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { namespace: 'bad', name: `${name}-${index}`, labels: { note: 'x' } },
    spec: { source: { name: 'none' }, destination: { namespaces: patterns(index) } },
  }));
  await scene.api.createMany(mirrors);
}

let goods = 0;
/** Checks that a mirror of a user in another namespace makes its copies as usual. */
async function assertOthersServed(): Promise<void> {
  goods += 1;
  const name = `good-${goods}`;
  await scene.secret(HOME, name, { a: String(goods) });
  await scene.mirror(name, ['team-.*']);
  for (const team of ['team-1', 'team-2']) await scene.copied(team, name, { a: String(goods) });
}

describe('an author of SecretMirrors', () => {
  it('if the patterns of a mirror grow beyond the limit, the mirror reports InvalidSpec and keeps its copies', async () => {
    await scene.secret(HOME, 'grown', { a: '1' });
    await scene.mirror('grown', ['team-1', 'team-2']);
    await scene.copied('team-2', 'grown', { a: '1' });
    const { metadata } = await scene.copied('team-1', 'grown', { a: '1' });
    const list = ['team-1', ...Array.from({ length: 30 }, (_, index) => `${'x'.repeat(4000)}${index}`)];
    await scene.api.patch('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/grown', {
      spec: { destination: { namespaces: list } },
    });
    await scene.ready(
      'grown',
      'InvalidSpec',
      /^spec.destination.namespaces: the patterns have \d+ characters in total; the maximum is 65536$/u,
    );
    assert.equal((await scene.find('team-1', 'grown')).metadata.uid, metadata.uid);
    // If a user now deletes one of these copies, the claim on that copy ends.
    const left = async (count: number): Promise<unknown> =>
      await waitFor(async () => (await operator.metric('keyferry_claims', { system: 'mirrors' })) === count, {
        message: `${count} claims`,
      });
    await left(2);
    await scene.api.delete(secretPath('team-2', 'grown'));
    await left(1);
    await scene.api.patch('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/grown', {
      spec: { destination: { namespaces: ['team-2'] } },
    });
    await scene.copied('team-2', 'grown', { a: '1' });
    await scene.gone(secretPath('team-1', 'grown'));
  });

  it('if a source has too many labels, its copy gets some of them; if a user gives a copy too many labels, the mirror reports TooLarge', async () => {
    const many = Object.fromEntries(Array.from({ length: 2000 }, (_, index) => [`label-${index}`, 'x'.repeat(60)]));
    await scene.secret(HOME, 'labelled', { a: '1' }, { metadata: { labels: many } });
    await scene.mirror('labelled', ['team-1']);
    const copy = await scene.copied('team-1', 'labelled', { a: '1' });
    const kept = Object.keys(copy.metadata.labels).length;
    assert.ok(kept > 100 && kept < 300, `${kept} labels`);
    await scene.ready('labelled', 'Synced');
    await scene.api.patch(secretPath('team-1', 'labelled'), labels(many));
    await scene.ready('labelled', 'SyncError', /TooLarge/u);
    assert.equal(Object.keys((await scene.find('team-1', 'labelled')).metadata.labels).length, 2001);
  });

  longIt(
    'mirrors whose patterns are slow, too many or too long do not delay mirrors of other namespaces',
    async (t) => {
      await staysResponsive(t, operator, async () => {
        await createMany('slow', (index) => [`${'([a-z0-9-]{1,30}){1,30}.*x'.repeat(8)}${index}`]);
        // As many and as slow patterns as a mirror may have.
        await createMany('slowest', (index) =>
          Array.from({ length: 30 }, (_, other) => `([a-z0-9-]{1,18}){1,18}.*x${index}-${other}`),
        );
        await createMany('many', (index) => Array.from({ length: 1000 }, (_, other) => `a${index}-${other}.*`));
        await createMany('long', (index) =>
          Array.from({ length: 30 }, (_, other) => `${'x'.repeat(4000)}${index}-${other}.*`),
        );
        await assertOthersServed();
        await scene.ready(
          'long-7',
          'InvalidSpec',
          /^spec.destination.namespaces: the patterns have \d+ characters in total; the maximum is 65536$/u,
          'bad',
          180_000,
        );
        await scene.namespaces(...Array.from({ length: 10 }, (_, index) => `late-${index}`));
        await assertOthersServed();
      });
    },
  );

  longIt(
    'after a restart, mirrors whose patterns are slow, too many or too long do not delay mirrors of other namespaces',
    async (t) => {
      await operator.stop();
      operator = await scene.operator({ command: 'mirrors' });
      await staysResponsive(t, operator, async () => {
        await assertOthersServed();
      });
    },
  );
});
