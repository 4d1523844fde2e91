/** If a second cluster does not answer, only the copies in that cluster are delayed. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { waitFor } from '../../support/wait-for.ts';
import { TwoClusters } from './two-clusters.ts';

let scene: TwoClusters;

before(async () => {
  scene = await TwoClusters.open();
});
after(async () => {
  await scene?.[Symbol.asyncDispose]();
});

function isReady(): boolean {
  return scene.manager.readiness().every(({ ok }) => ok);
}

describe('a second cluster', () => {
  it('if a second cluster refuses connections, the start and the copies in the home cluster are not delayed', async () => {
    await scene.proxy.refuse();
    await scene.createSource('first', 'one');
    await scene.start();
    assert.ok(isReady());
    await scene.copied(scene.home, 'first', 'one');
    await scene.reason('first', 'ClusterUnreachable');
    const { message = '' } = scene.outcomes.get('management first') ?? {};
    assert.equal(message, 'the management cluster does not answer');
    assert.equal(scene.backends.away.reachability.cause?.reason, 'ClusterUnreachable');
    assert.equal(scene.backends.home.reachability.cause, undefined);
  });

  it('if a second cluster forbids the watch, its reason is Forbidden, and the operator stays ready', async () => {
    await scene.proxy.accept();
    await waitFor(() => scene.backends.away.reachability.cause?.reason === 'Forbidden', { message: 'the 403' });
    await scene.reason('first', 'Forbidden');
    assert.ok(scene.manager.otherWatches.some(({ ok, backend }) => !ok && backend === 'management'));
    assert.ok(isReady());
  });

  it('if a second cluster grants the permissions later, its copies are made without a restart', async () => {
    await scene.permit();
    await scene.copied(scene.away, 'first', 'one');
    await scene.reason('first', 'Synced');
    assert.equal(scene.backends.away.reachability.cause, undefined);
    assert.ok(scene.manager.otherWatches.every(({ ok }) => ok));
  });

  it('if a second cluster was unreachable for some time, it then gets each change one time', async () => {
    await scene.proxy.refuse();
    await waitFor(() => scene.backends.away.reachability.cause !== undefined, { message: 'the loss to be noticed' });
    await scene.changeSource('first', 'three');
    await scene.createSource('second', 'new');
    await Promise.all([scene.copied(scene.home, 'first', 'three'), scene.copied(scene.home, 'second', 'new')]);
    await Promise.all([scene.reason('first', 'ClusterUnreachable'), scene.reason('second', 'ClusterUnreachable')]);
    assert.ok(isReady());
    scene.proxy.reset();
    await scene.proxy.accept();
    await Promise.all([scene.copied(scene.away, 'first', 'three'), scene.copied(scene.away, 'second', 'new')]);
    await Promise.all([scene.reason('first', 'Synced'), scene.reason('second', 'Synced')]);
    const writes = scene.proxy.requests.filter(({ method }) => method !== 'GET');
    assert.deepEqual(writes.map(({ method }) => method).toSorted(), ['PATCH', 'POST']);
  });

  it('the queue for targets of a second cluster has the name of that cluster', () => {
    const names = scene.manager.engine.queues.map(({ name }) => name);
    assert.ok(names.includes('targets') && names.includes('targets management'), names.join());
  });
});

it('if the namespaces of a cluster are not watched, hasNamespace is true for any name', async () => {
  assert.ok(scene.backends.away.hasNamespace('any'));
  scene.backends.home.watchNamespaces(() => undefined);
  await waitFor(() => scene.backends.home.hasNamespace('default'), { message: 'the namespaces to be listed' });
  assert.equal(scene.backends.home.hasNamespace('any'), false);
});
