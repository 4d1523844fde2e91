import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { ApiError, ConnectionError, CredentialError } from '../../../kube/errors.ts';
import type { WatchHealth } from '../../../kube/watch/watch-target.ts';
import type { ObjectKey } from '../../model/keys.ts';
import { causeOfWatches, Reachability, waitAfter } from './reachability.ts';
import { asKey } from '../../../../test/support/keys.ts';

const CALL = { cluster: 'other', method: 'GET', path: '/api/v1/secrets' };
const apiError = (status: number, reason: string, message = 'no', isStatus = true): ApiError =>
  new ApiError(CALL, status, { reason, message, causes: [], isStatus });
const REFUSED = new ConnectionError('ECONNREFUSED', 'connect ECONNREFUSED 10.9.8.7:6443');

const CONNECTED: WatchHealth = {
  collection: 'secrets',
  scope: 'team',
  name: 'secrets/team',
  synced: true,
  connected: true,
  silentMs: 0,
};
const broken = (cause: Error | undefined, more: Partial<WatchHealth> = {}): WatchHealth => {
  return { ...CONNECTED, synced: false, connected: false, cause, ...more };
};

describe('the cause why a cluster cannot be used, found from the state of its watches', () => {
  for (const [title, watches, expected] of [
    ['no watch', [], undefined],
    ['a connected watch', [CONNECTED], undefined],
    ['a first list under way', [broken(undefined, { silentMs: 60_000 })], undefined],
    ['a refused connection', [CONNECTED, broken(REFUSED)], 'ClusterUnreachable: the other cluster does not answer'],
    [
      'a timeout',
      [broken(new ConnectionError('ETIMEDOUT', 'x'))],
      'ClusterUnreachable: the other cluster does not answer',
    ],
    [
      'a 502 of a proxy',
      [broken(apiError(502, 'Unknown', 'no', false))],
      'ClusterUnreachable: the other cluster does not answer',
    ],
    [
      'a 401',
      [broken(apiError(401, 'Unauthorized'))],
      'Unauthorized: the other cluster does not accept the credentials',
    ],
    ['a 403', [broken(apiError(403, 'Forbidden'))], 'Forbidden: no permission to watch secrets in the other cluster'],
    [
      'a 404',
      [broken(apiError(404, 'NotFound'))],
      'NotInstalled: the API of secrets is not installed in the other cluster',
    ],
    ['a list that is too old', [broken(apiError(410, 'Expired'), { synced: true, silentMs: 60_000 })], undefined],
    [
      'an expired certificate',
      [broken(new ConnectionError('CERT_HAS_EXPIRED', 'x'))],
      'ClusterUnreachable: no TLS connection to the other cluster: check the certificates',
    ],
    [
      'an unreadable token',
      [broken(new CredentialError('/secret/path'))],
      'ClusterUnreachable: there are no credentials for the other cluster',
    ],
    [
      'a listed watch without a connection for a moment',
      [broken(REFUSED, { synced: true, silentMs: 2999 })],
      undefined,
    ],
    [
      'a listed watch without a connection for longer',
      [broken(REFUSED, { synced: true, silentMs: 3001 })],
      'ClusterUnreachable: the other cluster does not answer',
    ],
    ['a watch whose failure is excused', [broken(REFUSED, { isExcused: true })], undefined],
  ] as const) {
    it(`a cluster with ${title} ${expected === undefined ? 'can be used' : 'cannot be used, with the cause'}`, () => {
      const cause = causeOfWatches('other', watches);
      assert.equal(cause && `${cause.reason}: ${cause.message}`, expected);
    });
  }
});

describe('the wait of a target after an error', () => {
  for (const [title, error, expected] of [
    ['a refused connection', REFUSED, 'ClusterUnreachable'],
    ['a 503 of a proxy', apiError(503, 'ServiceUnavailable', 'no', false), 'ClusterUnreachable'],
    ['a 401', apiError(401, 'Unauthorized'), 'Unauthorized'],
    ['a missing namespace', apiError(404, 'NotFound', 'namespaces "team" not found'), 'NamespaceNotFound'],
    ['a missing object', apiError(404, 'NotFound', 'secrets "a" not found'), undefined],
    ['a 403', apiError(403, 'Forbidden'), undefined],
    ['a 500', apiError(500, 'InternalError'), undefined],
    ['a write that was not sent', new ConnectionError('EFENCED', 'x'), undefined],
    ['an answer that is too large', new ConnectionError('EMSGSIZE', 'x'), undefined],
  ] as const) {
    it(`after ${title}, a target ${expected === undefined ? 'does not wait for its cluster' : `waits for its cluster, with the reason ${expected}`}`, () => {
      const wait = waitAfter('other', error);
      assert.equal(wait?.reason, expected);
      assert.doesNotMatch(wait?.message ?? '', /10\.9\.8\.7/);
    });
  }
});

const TARGET: ObjectKey = asKey('other:Secret/a/b');

/** The reachability of a cluster with one watch, which `breakWatch` breaks and `mendWatch` mends. */
function setUp() {
  const clock = new ManualClock();
  const state: { brokenSince?: number | undefined } = {};
  const [retried, reported]: [string[], string[]] = [[], []];
  const reachability = new Reachability({
    cluster: 'other',
    clock,
    watches: () =>
      state.brokenSince === undefined
        ? [CONNECTED]
        : [broken(REFUSED, { synced: true, silentMs: clock.monotonic() - state.brokenSince })],
    retry: (target) => retried.push(target),
    report: (target, { reason }) => void reported.push(`${target} ${reason}`),
  });
  const breakWatch = async (forMs = 4000): Promise<void> => {
    state.brokenSince = clock.monotonic();
    reachability.watchFailed();
    await clock.advance(forMs);
  };
  const mendWatch = async (): Promise<void> => {
    state.brokenSince = undefined;
    await clock.advance(1000);
  };
  return { clock, reachability, retried, reported, breakWatch, mendWatch };
}

it('a cluster counts as unreachable when one of its watches had no connection for 3 s, until this watch is connected again', async () => {
  const { clock, reachability, breakWatch, mendWatch } = setUp();
  const causes: (string | undefined)[] = [];
  reachability.onChange(() => causes.push(reachability.cause?.reason));
  await breakWatch(2000);
  assert.deepEqual(causes, []);
  await clock.advance(2000);
  assert.equal(reachability.cause?.reason, 'ClusterUnreachable');
  reachability.watchFailed();
  await clock.advance(60_000);
  assert.equal(causes.length, 1, 'a cause that lasts is reported once');
  await mendWatch();
  assert.deepEqual([causes.length, causes[1], reachability.cause], [2, undefined, undefined]);
  assert.equal(clock.pendingTimers, 0, 'a cluster without failures is not looked at');
});

it('stop() ends the checks of the watches of a cluster, and leaves no timer', async () => {
  const { clock, reachability, breakWatch } = setUp();
  await breakWatch();
  assert.equal(clock.pendingTimers, 1);
  reachability.stop();
  await clock.advance(1000);
  assert.equal(clock.pendingTimers, 0);
});

it('a target whose request got no response is tried again when the cluster answers, not when a back-off ends', async () => {
  const { reachability, retried, reported, breakWatch, mendWatch } = setUp();
  await reachability.listing(Promise.resolve());
  assert.equal(reachability.admits(TARGET), true);
  reachability.failed(TARGET, new ConnectionError('ETIMEDOUT', 'no answer'));
  await breakWatch();
  assert.deepEqual([retried, reported], [[], [`${TARGET} ClusterUnreachable`]]);
  await mendWatch();
  assert.deepEqual(retried, [TARGET]);
  assert.equal(reachability.admits(TARGET), true);
  await breakWatch();
  await mendWatch();
  assert.deepEqual(retried, [TARGET], 'the target no longer waits');
});

it('no request is sent for a target while its cluster cannot be used, or before the first lists of the cluster are complete', async () => {
  const { reachability, retried, reported, breakWatch, mendWatch } = setUp();
  await breakWatch();
  assert.equal(reachability.admits(TARGET), false);
  assert.deepEqual(reported, [`${TARGET} ClusterUnreachable`]);
  await mendWatch();
  assert.equal(reachability.admits(TARGET), false, 'the first lists are not complete');
  assert.deepEqual(retried, []);
  await reachability.listing(Promise.resolve());
  assert.deepEqual(retried, [TARGET]);
});

it('if the lists of a cluster begin anew before they are complete, only the new lists count, whichever end first', async () => {
  const { reachability, retried } = setUp();
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const early = reachability.listing(first.promise);
  const late = reachability.listing(second.promise);
  assert.equal(reachability.admits(TARGET), false);
  first.resolve();
  await early;
  assert.deepEqual([reachability.admits(TARGET), retried], [false, []]);
  second.resolve();
  await late;
  assert.deepEqual([reachability.admits(TARGET), retried], [true, [TARGET]]);
});
