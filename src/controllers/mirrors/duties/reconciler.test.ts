/**
 * Checks that each evaluation tells the Vault backend which entries a mirror uses, and that a mirror that is gone
 * without its finalizer is kept until its copies and leases are dealt with.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Entry } from '../../../copy/book/claim-book.ts';
import { type Outcome, PENDING, SYNCED } from '../../../copy/model/claim.ts';
import { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import { MetricRegistry } from '../../../observe/metrics/metric-registry.ts';
import { AwaitedWatches } from '../../common/awaited-watches.ts';
import type { ControllerContext } from '../../common/context.ts';
import { ruleVersion } from '../../common/rules/rule-store.ts';
import { SECRET_MIRROR_FINALIZER, type SecretMirror, type SecretMirrorSpec } from '../api.ts';
import { MirrorMetrics } from '../metrics.ts';
import { createMirrorStore } from '../rules/mirror-store.ts';
import { MirrorRules } from '../rules/rule-set.ts';
import { RetainShape } from '../rules/shape.ts';
import type { MirrorVault } from './mirror-vault.ts';
import { MirrorReconciler } from './reconciler.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import { asKey } from '../../../../test/support/keys.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';

const unused = (): never => assert.fail('not used');

test('after an evaluation, the Vault backend knows which entries a mirror uses; if the mirror is deleted or gone, it uses none', () => {
  const calls: string[] = [];
  const vault = {
    use: (rule: string) => calls.push(`use ${rule}`),
    release: (rule: string) => calls.push(`release ${rule}`),
  } as unknown as MirrorVault;
  const mirrors = createMirrorStore();
  const namespaces = new Namespaces();
  const rules = new MirrorRules(ruleScope({ namespaces }), { mirrors, vault, viewOf: unused });
  const cluster = { api: { cluster: 'c', request: unused, stream: unused }, namespaces };
  const context = { cluster, config: { deletionTimeoutMs: 0 } } as unknown as ControllerContext;
  const reconciler = new MirrorReconciler(context, {
    mirrors,
    rules,
    vault,
    metrics: new MirrorMetrics(new MetricRegistry()),
    recordEvent: unused,
    watches: new AwaitedWatches(),
    isOutdated: unused,
  });
  const metadata = { name: 'db', namespace: 'default', uid: 'u', creationTimestamp: '' };
  const put = (resourceVersion: string, deleted: object = {}): unknown =>
    mirrors.put({ metadata: { ...metadata, resourceVersion, ...deleted } } satisfies SecretMirror);
  put('1');
  const rule = mirrors.key('default', 'db');
  reconciler.evaluated(rule);
  put('2', { deletionTimestamp: '2026-01-01T00:00:00Z' });
  reconciler.evaluated(rule);
  reconciler.sink.remove({ metadata: { ...metadata, resourceVersion: '3' } });
  reconciler.evaluated(rule);
  assert.deepEqual(calls, [`use ${rule}`, `release ${rule}`, `release ${rule}`]);
});

test('a mirror that is gone without its finalizer is kept until its copies are retained and its leases revoked; the others are forgotten at once', async () => {
  const cases: readonly (readonly [string, SecretMirrorSpec, readonly string[], boolean])[] = [
    ['retains its copies', { deletePolicy: 'retain' }, [], true],
    ['has a source in Vault', { source: { type: 'vault' } }, [], true],
    ['deletes its copies', { deletePolicy: 'delete' }, [], false],
    ['had another finalizer', { deletePolicy: 'retain' }, ['example.com/other'], true],
    ['had its finalizer', { deletePolicy: 'retain' }, [SECRET_MIRROR_FINALIZER], false],
  ];
  const end = '2026-01-01T00:00:00Z';
  for (const [[what, spec, finalizers, isKept], shownBy] of cases.flatMap((one) => [
    [one, 'an event'] as const,
    [one, 'a list'] as const,
  ])) {
    let isRevoked = false;
    const vault = {
      release: () => undefined,
      leases: { states: unused, revocation: () => isRevoked },
    } as unknown as MirrorVault;
    const enqueued: RuleKey[] = [];
    const mirrors = createMirrorStore();
    const namespaces = new Namespaces();
    const rules = new MirrorRules(ruleScope({ namespaces }), { mirrors, vault, viewOf: unused });
    const context = {
      engine: { enqueueStatus: (key: RuleKey) => enqueued.push(key) },
      cluster: { api: { cluster: 'c', request: unused, stream: unused }, namespaces },
      config: { deletionTimeoutMs: 1000 },
      clock: { now: () => 0, monotonic: () => 0 },
    } as unknown as ControllerContext;
    const reconciler = new MirrorReconciler(context, {
      mirrors,
      rules,
      vault,
      metrics: new MirrorMetrics(new MetricRegistry()),
      recordEvent: unused,
      watches: new AwaitedWatches(),
      isOutdated: unused,
    });
    const ending = finalizers.length > 0 ? { deletionTimestamp: end } : {};
    const metadata = { name: 'db', namespace: 'default', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
    const mirror = { metadata: { ...metadata, finalizers, ...ending }, spec };
    mirrors.put(mirror);
    if (shownBy === 'a list') reconciler.sink.prune(new Set(), '9');
    else reconciler.sink.remove({ ...mirror, metadata: { ...mirror.metadata, resourceVersion: '9' } });
    const rule = mirrors.key('default', 'db');
    const kept = mirrors.get(rule);
    assert.equal(kept !== undefined, isKept, what);
    if (kept === undefined) continue;
    assert.deepEqual(enqueued, [rule], `${what}: nothing else may bring a run, if its version was the same`);
    const response: SecretMirror = { ...mirror, metadata: { ...mirror.metadata, resourceVersion: '8' } };
    mirrors.storeResponse(response);
    assert.equal(mirrors.get(rule), kept, `${what}: the late response to a write does not bring it back`);
    assert.equal(reconciler.needsPreparation(rule), false);
    reconciler.sink.prune(new Set(), '10');
    const left = mirrors.get(rule);
    assert.equal(left?.isGone, true, `${what}: it stays after a list, which lacks it`);
    const update = async (...outcomes: readonly Outcome[]): Promise<unknown> => {
      const claim = { owner: { key: rule, title: '', rank: '' }, mode: 'own', source: undefined } as const;
      const entries = outcomes.map((outcome): Entry => {
        return {
          target: asKey('c:Secret/team/db'),
          claim: { ...claim, shape: new RetainShape('default/db') },
          outcome,
        };
      });
      const progress = { writes: 0, undeleted: [], evaluated: ruleVersion(left) };
      return await reconciler.updateStatus(rule, entries, progress, new AbortController().signal);
    };
    assert.deepEqual(await update(PENDING), { requeueAfterMs: 1000 }, 'it runs again at the time limit');
    isRevoked = true;
    await update(PENDING);
    assert.equal(mirrors.get(rule), left, `${what}: a copy is not marked yet`);
    isRevoked = false;
    await update(SYNCED);
    assert.equal(mirrors.get(rule), left, `${what}: the lease is being revoked`);
    isRevoked = true;
    await update(SYNCED);
    assert.equal(mirrors.get(rule), undefined, what);
  }
});
