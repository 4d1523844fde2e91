import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionError } from '../../../kube/errors.ts';
import { type Cause, operatorCause } from '../../model/cause.ts';
import { RemoteTargets } from './remote-targets.ts';
import type { TargetReconciler } from './target-reconciler.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { ObjectKey } from '../../model/keys.ts';

const TARGET: ObjectKey = asKey('management:Secret/a/b');
const { signal } = new AbortController();
const CAUSE: Cause = operatorCause('ClusterUnreachable', 'it does not answer');

/** Remote targets whose reconciler does as `reconcile` says. */
function setUp(reconcile: () => Promise<undefined>) {
  const state = { cause: undefined as Cause | undefined, isListed: true };
  const [retried, reported]: [string[], string[]] = [[], []];
  const targets: Pick<TargetReconciler, 'reconcile' | 'report'> = {
    reconcile,
    report: (target, { reason }) => void reported.push(`${target} ${reason}`),
  };
  const remote = new RemoteTargets({
    cluster: 'management',
    targets: targets as TargetReconciler,
    unreachable: () => state.cause,
    isListed: () => state.isListed,
    retry: (target) => retried.push(target),
  });
  return { remote, state, retried, reported };
}

test('a target whose request was not answered is tried when the cluster answers, and not after its back-off', async () => {
  let answer = async (): Promise<undefined> => await Promise.reject(new ConnectionError('ETIMEDOUT', 'no answer'));
  const { remote, state, retried, reported } = setUp(async () => await answer());
  await assert.rejects(remote.reconcile(TARGET, signal), ConnectionError);
  state.cause = CAUSE;
  remote.retryWaiting();
  assert.deepEqual([retried, reported], [[], [`${TARGET} ClusterUnreachable`]]);
  state.cause = undefined;
  remote.retryWaiting();
  assert.deepEqual(retried, [TARGET]);
  answer = async () => await Promise.resolve(undefined);
  await remote.reconcile(TARGET, signal);
  remote.retryWaiting();
  assert.deepEqual(retried, [TARGET], 'it no longer waits');
});

test('a target of a cluster that cannot be used, or is not listed, waits without a request', async () => {
  let requests = 0;
  const { remote, state, retried, reported } = setUp(async () => {
    requests += 1;
    return await Promise.resolve(undefined);
  });
  state.cause = CAUSE;
  await remote.reconcile(TARGET, signal);
  assert.deepEqual(reported, [`${TARGET} ClusterUnreachable`]);
  Object.assign(state, { cause: undefined, isListed: false });
  await remote.reconcile(TARGET, signal);
  remote.retryWaiting();
  assert.deepEqual([requests, retried], [0, []]);
  state.isListed = true;
  remote.retryWaiting();
  assert.deepEqual(retried, [TARGET]);
});
