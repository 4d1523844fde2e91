/** Many rules with selectors, and many namespaces that change a label at once: bounded work, and others do not wait. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { labels, mirrorPath, MirrorScene } from '../mirrors/support.ts';

const VALUES = { password: 'x' };
/** Mirrors that select by the label which changes. */
const SELECTING = 20;
/** Mirrors with selectors that match nothing, each with a key of its own. */
const IDLE = 480;
const NAMESPACES = Array.from({ length: 200 }, (_, index) => `many-${index}`);
const SINGLE_NAMESPACE = 'single';
const CROWD = Array.from({ length: 1500 }, (_, index) => `crowd-${index}`);
const LAST = 'crowd-1499';
/** A copy, the status and an event of its mirror, and another status that brings nothing new. */
const REQUESTS_PER_COPY = 4;
/** Longest time from one label to its copies, ms on an idle machine. */
const ONE_LABEL_MS = 1000;
/** Longest time from all labels to their copies, ms on an idle machine. */
const ALL_LABELS_MS = 60_000;

describe('under load', () => {
  let scene: MirrorScene;

  const label = async (namespace: string, tier: string | null): Promise<unknown> =>
    await scene.api.patch(`/api/v1/namespaces/${namespace}`, labels({ tier }));
  /** The number of copies of the mirrors that select, as far as a list shows them. */
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

  it('a label on one namespace brings the copies of all its rules at once', async () => {
    await within(ONE_LABEL_MS, 'the copies of one namespace', async () => {
      await label(SINGLE_NAMESPACE, 'prod');
      await waitFor(async () => (await copies()) === SELECTING, { message: 'the copies of one namespace' });
    });
  });

  it('a label on many namespaces at once brings all copies, and a rule that does not select by it does not wait', async () => {
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

  it('a label that changes on 1,500 namespaces and concerns no copy costs no request, and those that follow are seen', async () => {
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

  it('a selector whose key was never used before does not evaluate the others again', async () => {
    // Of the copies before. A status that is written later is no evaluation.
    const copiesBefore = NAMESPACES.length + [SINGLE_NAMESPACE, LAST].length;
    await scene.ready('selected-0', 'Synced', new RegExp(`^${copiesBefore} copies are up to date$`));
    const version = (await scene.api.get(mirrorPath('selected-0'))).metadata.resourceVersion;
    const namespaceSelector = { matchExpressions: [{ key: 'fresh', operator: 'DoesNotExist' }] };
    await scene.mirror('fresh', ['bystander'], { source: { name: 'selected-0' }, destination: { namespaceSelector } });
    await scene.copied('bystander', 'selected-0', VALUES, 3000);
    assert.equal((await scene.api.get(mirrorPath('selected-0'))).metadata.resourceVersion, version);
  });
});
