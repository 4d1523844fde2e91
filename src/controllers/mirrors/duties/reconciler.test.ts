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
import type { KubeApi } from '../../../kube/api.ts';
import type { MirrorVault } from './mirror-vault.ts';
import { MirrorReconciler } from './reconciler.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import { asKey } from '../../../../test/support/keys.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';

const unused = (): never => assert.fail('not used');

/** A reconciler with its store. @param request answers the requests to the API server */
function reconcilerFor(vault: object, request: KubeApi['request'] = unused) {
  const enqueued: RuleKey[] = [];
  const labels: string[] = [];
  const mirrors = createMirrorStore();
  const namespaces = new Namespaces();
  const parts = { mirrors, vault: vault as MirrorVault };
  const rules = new MirrorRules(ruleScope({ namespaces }), { ...parts, viewOf: unused });
  const labelsKnown = async (keys: readonly string[]): Promise<void> => {
    await Promise.resolve(labels.push(...keys));
  };
  const context = {
    engine: { enqueueStatus: (key: RuleKey) => enqueued.push(key) },
    cluster: { api: { cluster: 'c', request, stream: unused }, namespaces, namespaceReads: { labelsKnown } },
    config: { deletionTimeoutMs: 1000 },
    clock: { now: () => 0, monotonic: () => 0 },
  } as unknown as ControllerContext;
  const reconciler = new MirrorReconciler(context, {
    ...parts,
    rules,
    metrics: new MirrorMetrics(new MetricRegistry()),
    recordEvent: unused,
    watches: new AwaitedWatches(),
    isOutdated: unused,
  });
  return { reconciler, mirrors, enqueued, labels };
}

test('a mirror waits for the labels in its selector before its evaluation, and its patterns are not compiled yet', async (t) => {
  const { reconciler, mirrors, labels } = reconcilerFor({});
  const metadata = { name: 'db', namespace: 'default', uid: 'u', creationTimestamp: '', resourceVersion: '1' };
  const namespaceSelector = { matchLabels: { tier: 'x' }, matchExpressions: [{ key: 'team', operator: 'Exists' }] };
  mirrors.put({ metadata, spec: { destination: { namespaces: ['a.*'], namespaceSelector } } } as SecretMirror);
  const specOf = t.mock.method(reconciler.rules, 'specOf');
  await reconciler.listed(mirrors.key('default', 'db'), new AbortController().signal);
  assert.deepEqual(labels, ['tier', 'team']);
  assert.equal(specOf.mock.callCount(), 0);
});

const END = '2026-01-01T00:00:00Z';

test('after an evaluation, the Vault backend knows which entries a mirror uses; if the mirror is deleted or gone, it uses none', () => {
  const calls: string[] = [];
  const vault = {
    use: (rule: string) => calls.push(`use ${rule}`),
    release: (rule: string) => calls.push(`release ${rule}`),
  };
  const { reconciler, mirrors } = reconcilerFor(vault);
  const metadata = { name: 'db', namespace: 'default', uid: 'u', creationTimestamp: '' };
  const put = (resourceVersion: string, deleted: object = {}): unknown =>
    mirrors.put({ metadata: { ...metadata, resourceVersion, ...deleted } } satisfies SecretMirror);
  put('1');
  const rule = mirrors.key('default', 'db');
  reconciler.evaluated(rule);
  put('2', { deletionTimestamp: END });
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
    ['lost its finalizer while it was being deleted', { deletePolicy: 'retain' }, [SECRET_MIRROR_FINALIZER], true],
  ];
  for (const [[what, spec, finalizers, isKept], shownBy] of cases.flatMap((one) => [
    [one, 'an event'] as const,
    [one, 'a list'] as const,
  ])) {
    let isRevoked = false;
    const leases = { states: unused, revocation: () => isRevoked };
    const { reconciler, mirrors, enqueued } = reconcilerFor({ release: () => undefined, leases });
    const ending = finalizers.length > 0 ? { deletionTimestamp: END } : {};
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

test('a mirror whose finalizer Keyferry removes is forgotten, also if the watch reports its end before the response', async () => {
  const metadata = { name: 'db', namespace: 'default', uid: 'u', creationTimestamp: '', deletionTimestamp: END };
  const mirror: SecretMirror = {
    metadata: { ...metadata, resourceVersion: '1', finalizers: [SECRET_MIRROR_FINALIZER] },
    spec: { deletePolicy: 'retain' },
  };
  const vault = { release: () => undefined, leases: { states: unused, revocation: () => true } };
  const { reconciler, mirrors } = reconcilerFor(vault, async () => {
    const ended = { metadata: { ...metadata, resourceVersion: '2' }, spec: mirror.spec };
    reconciler.sink.remove(ended);
    return await Promise.resolve({ status: 200, body: Buffer.from(JSON.stringify(ended)) });
  });
  mirrors.put(mirror);
  const rule = mirrors.key('default', 'db');
  const progress = { writes: 0, undeleted: [], evaluated: ruleVersion(mirror) };
  await reconciler.updateStatus(rule, [], progress, new AbortController().signal);
  assert.equal(mirrors.get(rule), undefined);
});
