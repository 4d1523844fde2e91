/** A second cluster that does not answer delays only the copies in it. */
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
  it('a second cluster that refuses connections delays neither the start nor the copies in the home cluster', async () => {
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

  it('a second cluster that forbids the watch is reported as Forbidden, and the operator stays ready', async () => {
    await scene.proxy.accept();
    await waitFor(() => scene.backends.away.reachability.cause?.reason === 'Forbidden', { message: 'the 403' });
    await scene.reason('first', 'Forbidden');
    assert.ok(scene.manager.otherWatches.some(({ ok, backend }) => !ok && backend === 'management'));
    assert.ok(isReady());
  });

  it('a second cluster gets its copies as soon as it grants the permissions', async () => {
    await scene.permit();
    await scene.copied(scene.away, 'first', 'one');
    await scene.reason('first', 'Synced');
    assert.equal(scene.backends.away.reachability.cause, undefined);
    assert.ok(scene.manager.otherWatches.every(({ ok }) => ok));
  });

  it('a second cluster that was unreachable gets each change once when it answers again', async () => {
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

  it("the queue of a second cluster's targets has the name of that cluster", () => {
    const names = scene.manager.engine.queues.map(({ name }) => name);
    assert.ok(names.includes('targets') && names.includes('targets management'), names.join());
  });
});

it('in a cluster whose namespaces are not watched, any namespace counts as existing', async () => {
  assert.ok(scene.backends.away.hasNamespace('any'));
  scene.backends.home.watchNamespaces(() => undefined);
  await waitFor(() => scene.backends.home.hasNamespace('default'), { message: 'the namespaces to be listed' });
  assert.equal(scene.backends.home.hasNamespace('any'), false);
});
