/**
 * Many mirrors with a namespaceSelector, and many namespaces whose label changes at the same time: the operator sends a
 * bounded number of requests, and other mirrors do not wait.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { waitFor } from '../../../support/wait-for.ts';
import { within } from '../../../support/yardstick.ts';
import { labels, mirrorPath, MirrorScene } from '../../mirrors/support.ts';

const VALUES = { password: 'x' };
/** The number of mirrors that select by the label `tier`, which these tests change. */
const SELECTING = 20;
/** The number of mirrors whose selector matches no namespace. Each selects by its own label key. */
const IDLE = 480;
const NAMESPACES = Array.from({ length: 200 }, (_, index) => `many-${index}`);
const SINGLE_NAMESPACE = 'single';
const CROWD = Array.from({ length: 1500 }, (_, index) => `crowd-${index}`);
const LAST = 'crowd-1499';
/** Requests for each copy: one write of the copy, two writes of its mirror's status, one event. */
const REQUESTS_PER_COPY = 4;
/** Time limit from the new label of one namespace to its copies, ms on an idle machine. */
const ONE_LABEL_MS = 1000;
/** Time limit from the new labels of all namespaces to their copies, ms on an idle machine. */
const ALL_LABELS_MS = 60_000;

describe('under load', () => {
  let scene: MirrorScene;

  const label = async (namespace: string, tier: string | null): Promise<unknown> =>
    await scene.api.patch(`/api/v1/namespaces/${namespace}`, labels({ tier }));
  /** The number of copies of the mirrors that select by `tier`. */
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

  it('if a namespace gets a label that 20 mirrors select, all 20 copies exist within 1 s', async () => {
    await within(ONE_LABEL_MS, 'the copies of one namespace', async () => {
      await label(SINGLE_NAMESPACE, 'prod');
      await waitFor(async () => (await copies()) === SELECTING, { message: 'the copies of one namespace' });
    });
  });

  it('if 200 namespaces get a label at once, all their copies are made, and a mirror that selects by names is not delayed', async () => {
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

  it('if a label of 1,500 namespaces gets a value that no mirror selects, Keyferry sends no request, and notices the next change', async () => {
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

  it('if a mirror selects by a label key that no rule used before, the other mirrors are not evaluated again', async () => {
    // Waits until the status includes all copies by now. A later write of the status would change the resourceVersion,
    // too.
    const copiesBefore = NAMESPACES.length + [SINGLE_NAMESPACE, LAST].length;
    await scene.ready('selected-0', 'Synced', new RegExp(`^${copiesBefore} copies are up to date$`));
    const version = (await scene.api.get(mirrorPath('selected-0'))).metadata.resourceVersion;
    const namespaceSelector = { matchExpressions: [{ key: 'fresh', operator: 'DoesNotExist' }] };
    await scene.mirror('fresh', ['bystander'], { source: { name: 'selected-0' }, destination: { namespaceSelector } });
    await scene.copied('bystander', 'selected-0', VALUES, 3000);
    assert.equal((await scene.api.get(mirrorPath('selected-0'))).metadata.resourceVersion, version);
  });
});
