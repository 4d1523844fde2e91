import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MetricRegistry } from '../../observe/metrics/metric-registry.ts';
import { MirrorMetrics } from './metrics.ts';

test('the metrics of a mirror have the names and labels of ktsstudio/mirrors, and end when the mirror is removed', async () => {
  const registry = new MetricRegistry();
  const metrics = new MirrorMetrics(registry);
  for (const mirror of ['default/a', 'default/b']) {
    metrics.synced(mirror, { sourceType: 'secret', destinationType: 'namespaces' }, 6);
    metrics.synced(mirror, { sourceType: 'secret', destinationType: 'namespaces' }, 7);
    metrics.leaseRenewed(mirror, 'http://vault:8200');
    metrics.leaseRenewFailed(mirror, 'http://vault:8200', 403);
    metrics.leaseRenewFailed(mirror, 'http://vault:8200', undefined);
  }
  metrics.removeMirror('default/b');
  metrics.removeMirror('default/never-seen');
  const ours = (await registry.text()).split('\n').filter((line) => line.startsWith('mirrors_'));
  assert.deepEqual(ours, [
    'mirrors_sync_total{mirror="default/a",source_type="secret",destination_type="namespaces"} 2',
    'mirrors_ns_current_count{mirror="default/a",source_type="secret"} 7',
    'mirrors_vault_lease_renew_ok_total{mirror="default/a",vault="http://vault:8200"} 1',
    'mirrors_vault_lease_renew_error_total{mirror="default/a",vault="http://vault:8200",http_code="403"} 1',
    'mirrors_vault_lease_renew_error_total{mirror="default/a",vault="http://vault:8200",http_code="-"} 1',
  ]);
  metrics.synced('default/b', { sourceType: 'vault', destinationType: 'vault' }, 0);
  assert.match(await registry.text(), /mirrors_sync_total\{mirror="default\/b",source_type="vault",[^\n]* 1\n/);
});
