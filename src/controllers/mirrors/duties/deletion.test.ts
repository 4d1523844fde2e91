/** Checks when a deleted SecretMirror loses its finalizer, although some of its copies still exist. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { userCause } from '../../../copy/model/cause.ts';
import { type Claim, type Outcome, PENDING } from '../../../copy/model/claim.ts';
import type { ResourceKey, RuleKey } from '../../../copy/model/keys.ts';
import { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import type { KubeApi } from '../../../kube/api.ts';
import { MetricRegistry } from '../../../observe/metrics/metric-registry.ts';
import { AwaitedWatches } from '../../common/awaited-watches.ts';
import type { ControllerContext } from '../../common/context.ts';
import { ruleVersion } from '../../common/rules/rule-store.ts';
import { SECRET_MIRROR_FINALIZER, type SecretMirror } from '../api.ts';
import { MirrorMetrics } from '../metrics.ts';
import { createMirrorStore } from '../rules/mirror-store.ts';
import { MirrorShape, RetainShape } from '../rules/shape.ts';
import type { MirrorVault } from './mirror-vault.ts';
import { MirrorReconciler } from './reconciler.ts';
import { MirrorRules } from '../rules/rule-set.ts';
import { asKey } from '../../../../test/support/keys.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';

const RULE: RuleKey = asKey('mirrors:default/db');

const unused = (): never => assert.fail('not used');

describe('a mirror that is being deleted, after the deletion timeout', () => {
  const LIMIT_MS = 60_000;
  const DELETED = '2026-11-21T10:00:00Z';
  const MINUTES_10 = 10 * 60_000;
  const mirror: SecretMirror = {
    metadata: {
      name: 'db',
      namespace: 'default',
      uid: 'u',
      resourceVersion: '1',
      creationTimestamp: '',
      deletionTimestamp: DELETED,
      finalizers: [SECRET_MIRROR_FINALIZER],
    },
    spec: { destination: { namespaces: ['team'] } },
  };

  /**
   * Whether the finalizer is removed, and the reasons of the events.
   * @param waitedMs time since this process saw the deletion, ms
   * @param skewMs how far Keyferry's clock is ahead of the server's, ms
   */
  async function report(
    outcome: Outcome,
    { waitedMs = LIMIT_MS, retain = false, skewMs = 0 } = {},
  ): Promise<readonly [boolean, readonly string[]]> {
    let monotonic = 7;
    const mirrors = createMirrorStore();
    mirrors.put(mirror);
    const events: string[] = [];
    let isRemoved = false;
    const namespaces = new Namespaces();
    const rules = new MirrorRules(ruleScope({ namespaces }), { mirrors, viewOf: unused });
    const request: KubeApi['request'] = async ({ body = '' }) => {
      const { metadata } = JSON.parse(String(body)) as Partial<SecretMirror>;
      isRemoved ||= metadata?.finalizers?.length === 0;
      return await Promise.resolve({ status: 200, headers: {}, body: Buffer.from(JSON.stringify(mirror)) });
    };
    const context = {
      cluster: { api: { cluster: 'c', request, stream: unused }, namespaces },
      clock: { now: () => Date.parse(DELETED) + skewMs + monotonic, monotonic: () => monotonic },
      config: { deletionTimeoutMs: LIMIT_MS },
    } as unknown as ControllerContext;
    const leases = { states: () => undefined, revocation: () => true };
    const made = new MirrorReconciler(context, {
      mirrors,
      rules,
      vault: { leases } as unknown as MirrorVault,
      metrics: new MirrorMetrics(new MetricRegistry()),
      recordEvent: (_mirror, { reason }) => events.push(reason),
      watches: new AwaitedWatches(),
      isOutdated: unused,
    });
    const owner = { key: RULE, title: 'SecretMirror default/db', rank: '' };
    const shape = retain ? new RetainShape('default/db') : new MirrorShape({ owner: 'default/db', retain: false });
    const mode = retain ? 'own' : 'release';
    const target: ResourceKey = asKey('c:Secret/team/db');
    const claim: Claim = { owner, mode, source: undefined, shape };
    const news = { writes: 0, undeleted: [], evaluated: ruleVersion(mirror) };
    const update = async (): Promise<unknown> =>
      await made.updateStatus(RULE, [{ target, claim, outcome }], news, new AbortController().signal);
    await update();
    assert.equal(isRemoved, false, 'not before the limit');
    events.splice(0);
    monotonic += waitedMs;
    await update();
    return [isRemoved, events];
  }

  const going: Outcome = { state: 'waiting', for: 'target', ...userCause('Terminating', 'a finalizer') };
  const awaited: Outcome = { state: 'waiting', for: 'watch', ...userCause('Pending', 'a new owner reads its source') };
  const refused: Outcome = { state: 'error', ...userCause('Forbidden', 'no') };

  it('after the time limit, a deleted mirror loses its finalizer and gets an event if Keyferry has tried to delete all remaining copies', async () => {
    for (const skewMs of [0, MINUTES_10, -MINUTES_10]) {
      assert.deepEqual(await report(going, { skewMs }), [true, ['DeletionTimeout']]);
      assert.deepEqual(await report(refused, { skewMs }), [true, ['DeletionTimeout']]);
      assert.deepEqual(await report(awaited, { skewMs }), [true, ['DeletionTimeout']]);
      const [isRemoved, events] = await report(going, { skewMs, waitedMs: LIMIT_MS - 1 });
      assert.equal(isRemoved, false);
      assert.ok(!events.includes('DeletionTimeout'));
    }
  });

  it('after the time limit, a deleted mirror keeps its finalizer if Keyferry has not tried to delete a copy, or a retained copy is not marked yet', async () => {
    assert.deepEqual(await report(PENDING), [false, []]);
    assert.deepEqual(await report(PENDING, { retain: true }), [false, []]);
    assert.equal((await report(refused, { retain: true }))[0], false);
  });
});
