/** Checks that each evaluation tells the Vault backend which entries a mirror uses. A deleted mirror uses none. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import { MetricRegistry } from '../../../observe/metrics/metric-registry.ts';
import { AwaitedWatches } from '../../common/awaited-watches.ts';
import type { ControllerContext } from '../../common/context.ts';
import type { SecretMirror } from '../api.ts';
import { MirrorMetrics } from '../metrics.ts';
import { createMirrorStore } from '../rules/mirror-store.ts';
import { MirrorRules } from '../rules/rule-set.ts';
import type { MirrorVault } from './mirror-vault.ts';
import { MirrorReconciler } from './reconciler.ts';
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
  mirrors.sink.remove({ metadata: { ...metadata, resourceVersion: '3' } });
  reconciler.evaluated(rule);
  assert.deepEqual(calls, [`use ${rule}`, `release ${rule}`, `release ${rule}`]);
});
