/**
 * Many mirrors with selectors, and many namespaces whose label changes at once: the work is bounded, and other mirrors
 * do not wait.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { labels, mirrorPath, MirrorScene } from '../mirrors/support.ts';

const VALUES = { password: 'x' };
/** The number of mirrors that select by the label `tier`, which the tests change. */
const SELECTING = 20;
/** The number of mirrors whose selectors match nothing. Each selects by a key of its own. */
const IDLE = 480;
const NAMESPACES = Array.from({ length: 200 }, (_, index) => `many-${index}`);
const SINGLE_NAMESPACE = 'single';
const CROWD = Array.from({ length: 1500 }, (_, index) => `crowd-${index}`);
const LAST = 'crowd-1499';
/** Requests for each copy: the copy, a status and an event of its mirror, and one more status without news. */
const REQUESTS_PER_COPY = 4;
/** Time limit from the label of one namespace to its copies, ms on an idle machine. */
const ONE_LABEL_MS = 1000;
/** Time limit from the labels of all namespaces to their copies, ms on an idle machine. */
const ALL_LABELS_MS = 60_000;

describe('under load', () => {
  let scene: MirrorScene;

  const label = async (namespace: string, tier: string | null): Promise<unknown> =>
    await scene.api.patch(`/api/v1/namespaces/${namespace}`, labels({ tier }));
  /** Counts the copies of the mirrors that select by `tier`, with a list. */
  const copies = async (): Promise<number> => {
    const found = await scene.api.list('/api/v1/secrets', { labelSelector: 'keyferry.dev/copy=mirrors' });
    return found.filter(({ metadata }) => metadata.name.startsWith('selected-')).length;
  };

  before(async () => {
    scene = await MirrorScene.open({ controllerManager: false });
    await scene.namespaces(...NAMESPACES, SINGLE_NAMESPACE, 'bystander');
    const mirror = (name: string, key: string): object => ({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name, namespace: 'default' },
      spec: { destination: { namespaceSelector: { matchLabels: { [key]: 'prod' } } } },
    });
    const selected = Array.from({ length: SELECTING }, (_, index) => `selected-${index}`);
    for (const name of selected) await scene.secret('default', name, VALUES);
    await scene.secret('default', 'bystander', VALUES);
    await scene.api.createMany(selected.map((name) => mirror(name, 'tier')));
    await scene.api.createMany(Array.from({ length: IDLE }, (_, index) => mirror(`idle-${index}`, `key-${index}`)));
    await scene.operator();
    await scene.ready('selected-0', 'Synced');
  });

  after(async () => {
    await scene.close();
  });

  it('a label on one namespace brings the copies of all mirrors that select it within a second', async () => {
    await within(ONE_LABEL_MS, 'the copies of one namespace', async () => {
      await label(SINGLE_NAMESPACE, 'prod');
      await waitFor(async () => (await copies()) === SELECTING, { message: 'the copies of one namespace' });
    });
  });

  it('a label on 200 namespaces at once brings all copies, and delays no mirror that selects by names', async () => {
    const all = NAMESPACES.length * SELECTING;
    await within(ALL_LABELS_MS, `${all} copies`, async () => {
      const labelled = Promise.all(NAMESPACES.map(async (namespace) => await label(namespace, 'prod')));
      await scene.mirror('bystander', ['bystander']);
      await scene.copied('bystander', 'bystander', VALUES, 5000);
      await labelled;
      let seen = 0;
      await waitFor(async () => (seen = await copies()) === all + SELECTING, {
        timeoutMs: 2 * ALL_LABELS_MS,
        message: () => `${all} copies; there are ${seen}`,
      });
    });
    assert.equal((await scene.status('bystander')).mirrorStatus, 'Active');
  });

  it('a label that changes on 1,500 namespaces to a value that no mirror selects causes no request, and the next label is noticed', async () => {
    await scene.api.createMany(CROWD.map((name) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })));
    const [operator] = scene.operators;
    const requests = async (): Promise<number> =>
      (await operator?.metric('keyferry_kube_requests_total')) ?? Number.NaN;
    const [before, copiesBefore] = [await requests(), await copies()];
    const waiting = CROWD.values();
    const labelSome = async (): Promise<void> => {
      for (const namespace of waiting) await label(namespace, 'test');
    };
    await Promise.all(Array.from({ length: 15 }, labelSome));
    await label(LAST, 'prod');
    await waitFor(async () => (await copies()) === copiesBefore + SELECTING, { message: 'the copies of the last one' });
    const made = (await requests()) - before;
    assert.ok(made >= SELECTING && made <= SELECTING * REQUESTS_PER_COPY, `${made} requests`);
  });

  it('a selector with a label key that no rule used before causes no evaluation of the other rules', async () => {
    // Waits for the last status of the copies before, which would change the resourceVersion, too.
    const copiesBefore = NAMESPACES.length + [SINGLE_NAMESPACE, LAST].length;
    await scene.ready('selected-0', 'Synced', new RegExp(`^${copiesBefore} copies are up to date$`));
    const version = (await scene.api.get(mirrorPath('selected-0'))).metadata.resourceVersion;
    const namespaceSelector = { matchExpressions: [{ key: 'fresh', operator: 'DoesNotExist' }] };
    await scene.mirror('fresh', ['bystander'], { source: { name: 'selected-0' }, destination: { namespaceSelector } });
    await scene.copied('bystander', 'selected-0', VALUES, 3000);
    assert.equal((await scene.api.get(mirrorPath('selected-0'))).metadata.resourceVersion, version);
  });
});
