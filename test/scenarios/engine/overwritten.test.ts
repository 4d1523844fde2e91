/**
 * If an admission policy changes each copy when it is written, the operator reports it, and writes the copy again only
 * after growing pauses.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { longIt } from '../../support/long.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { HOME, mirrorPath, MirrorScene } from '../mirrors/support.ts';
import { overwrite, OVERWRITE_FLAGS } from './admission.ts';

const MARK = 'keyferry.dev/overwritten';
/**
 * The most writes of a copy in one test: two without a pause, then one after each pause of 5, 10, 20, 40 s and so on.
 */
const MOST_WRITES = 7;
/** The longest time until the next write after the policy is deleted, if a pause has just begun, ms. */
const HEAL_MS = 100_000;
/** Shorter than the first pause, ms: a copy that is written within this time was written without a pause. */
const SOON_MS = 4000;

let scene: MirrorScene;
let operator: Keyferry;

before(async () => {
  scene = await MirrorScene.open({ apiServerFlags: OVERWRITE_FLAGS, controllerManager: false });
  operator = await scene.operator();
});
after(() => scene.close());

/** Lines of the operator's log about writes of Secrets in a namespace. */
const writesTo = (namespace: string): string[] =>
  operator.output
    .split('\n')
    .filter((line) => /"(created|updated)"/.test(line) && line.includes(`"namespace":"${namespace}"`));

const reason = async (name: string): Promise<string> =>
  (await scene.api.get(mirrorPath(name))).status.conditions[0].reason;

describe('a copy that a policy of the cluster changes whenever it is written', { concurrency: 2 }, () => {
  it('if a policy changes a value of a copy at each write, the mirror reports its namespace, and writes the copy after growing pauses', async () => {
    await scene.namespaces('values-a', 'values-b');
    await scene.secret(HOME, 'values', { a: '1', b: '2' });
    {
      await using _ = await overwrite(scene.api, 'values', { namespace: 'values-b', path: '/data/a', value: 'eHh4' });
      // Keyferry asks for the values of the first copy of a content alone, so this is the only one for now.
      await scene.mirror('values', ['values-b']);
      const status = await scene.ready('values', 'Overwritten', /^cannot sync namespace values-b: .*stored something/);
      assert.deepEqual([status.mirrorStatus, status.conditions[0].status], ['Error', 'False']);
      await scene.event('values', 'Overwritten', /namespace values-b/);
      assert.equal((await scene.find('values-b', 'values')).data.a, 'eHh4');
      await scene.api.patch(mirrorPath('values'), { spec: { destination: { namespaces: ['values-.'] } } });
      await scene.copied('values-a', 'values', { a: '1', b: '2' });
      // The log may be later than the watch of the test.
      await waitFor(() => writesTo('values-a').length > 0, { message: 'the line about the write' });
    }
    const { metadata }: Json = await scene.copied('values-b', 'values', { a: '1', b: '2' }, HEAL_MS);
    await scene.ready('values', 'Synced');
    assert.equal(metadata.annotations['mirrors.kts.studio/owned-by'], `${HOME}/values`);
    await waitFor(async () => (await scene.find('values-b', 'values')).metadata.annotations[MARK] === undefined, {
      message: 'the mark to be taken off',
    });
    assert.ok(writesTo('values-b').length <= MOST_WRITES, `${writesTo('values-b').length} writes`);
    assert.equal(writesTo('values-a').length, 1);
  });

  it('if a policy changes a label of a copy at each write, the mirror reports it, and writes the copy after growing pauses', async () => {
    await scene.namespaces('labels');
    await scene.secret(HOME, 'labels', { a: '1' }, { metadata: { labels: { team: 'a' } } });
    {
      const theirs = { namespace: 'labels', path: '/metadata/labels/team', value: 'b' };
      await using _ = await overwrite(scene.api, 'labels', theirs);
      await scene.mirror('labels', ['labels']);
      await scene.ready('labels', 'Overwritten', /^cannot sync namespace labels: /);
    }
    await scene.ready('labels', 'Synced', /(?:)/, HOME, HEAL_MS);
    assert.equal((await scene.find('labels', 'labels')).metadata.labels.team, 'a');
    assert.ok(writesTo('labels').length <= MOST_WRITES, `${writesTo('labels').length} writes`);
  });
});

describe('a change of a source that a policy changes in the copy', () => {
  it('if a policy changes a copy at each write, the next change of the source still reaches the copy without a pause', async () => {
    await scene.namespaces('change');
    await scene.secret(HOME, 'change', { a: '1' });
    await scene.mirror('change', ['change']);
    await scene.ready('change', 'Synced');
    await using _ = await overwrite(scene.api, 'change', { namespace: 'change', path: '/data/a', value: 'eHh4' });
    await scene.change(HOME, 'change', { a: '2', b: '3' });
    await scene.ready('change', 'Overwritten');
    await scene.change(HOME, 'change', { a: '2', c: '3' });
    await within(SOON_MS, 'the copy of the change', async () => {
      await waitFor(async () => (await scene.find('change', 'change')).data.c !== undefined, { message: 'the change' });
    });
  });
});

describe('an operator that is killed while a policy changes a copy', () => {
  longIt(
    'if the operator is killed after a policy changed a copy, the next start does not report the copy as Synced',
    async () => {
      await scene.namespaces('killed');
      await scene.secret(HOME, 'killed', { a: '1' });
      await using _ = await overwrite(scene.api, 'killed', { namespace: 'killed', path: '/data/a', value: 'eHh4' });
      await scene.mirror('killed', ['killed']);
      await scene.ready('killed', 'Overwritten');
      const { metadata }: Json = await waitFor(async () => {
        const copy = await scene.find('killed', 'killed');
        return copy.metadata.annotations[MARK] === 'true' && copy;
      });
      await operator.kill9();
      operator = await scene.operator();
      await waitFor(
        async () => (await scene.find('killed', 'killed')).metadata.resourceVersion !== metadata.resourceVersion,
        { message: 'the copy to be looked at again' },
      );
      await staysTrue(async () => (await reason('killed')) === 'Overwritten', 3000, 'the mirror is not ready');
    },
  );
});
