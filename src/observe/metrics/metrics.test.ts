import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createMetrics } from './metrics.ts';

/** The lines of the metric with exactly this name. */
function samples(text: string, name: string): string[] {
  return text.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
}

describe('metrics', () => {
  it('metrics include keyferry_build_info and the process metrics that Prometheus clients usually have', async () => {
    const text = await createMetrics('1.2.3').text();
    for (const name of [
      'process_cpu_seconds_total',
      'process_resident_memory_bytes',
      'process_start_time_seconds',
      'nodejs_heap_size_total_bytes',
      'nodejs_heap_size_used_bytes',
      ...(process.platform === 'linux' ? ['process_open_fds'] : []),
    ]) {
      const [line] = samples(text, name);
      assert.ok(Number(line?.split(' ')[1]) > 0, `${name}: ${line}`);
    }
    assert.deepEqual(samples(text, 'keyferry_build_info'), [
      `keyferry_build_info{version="1.2.3",node="${process.versions.node}"} 1`,
    ]);
    assert.match(text, /# TYPE process_cpu_seconds_total counter/);
  });

  it('if createMetrics is called twice, the two registries count separately', async () => {
    const [a, b] = [createMetrics('1'), createMetrics('1')];
    a.writes.inc({ cluster: 'local', kind: 'Secret', verb: 'create', result: 'ok' });
    assert.equal(samples(await a.text(), 'keyferry_writes_total').length, 1);
    assert.equal(samples(await b.text(), 'keyferry_writes_total').length, 0);
  });

  it('metrics of queues, watches, claims, leases and the cache are read at each scrape', async () => {
    const metrics = createMetrics('1');
    let depth = 3;
    metrics.readFrom({
      queues: () => [{ queue: 'rules', depth, oldestAgeSeconds: 0.5, retries: 2 }],
      watches: () => [
        { cluster: 'local', kind: 'Secret', watch: 'copies', synced: true, connected: true, idleSeconds: 12.5 },
        { cluster: 'local', kind: 'Namespace', watch: 'all', synced: false, connected: false, idleSeconds: 0 },
        { cluster: 'local', kind: 'Gadget', watch: 'all', synced: false, connected: undefined, idleSeconds: 0 },
      ],
      claims: () => [
        { system: 'mirrors', state: 'synced', count: 10 },
        { system: 'mirrors', state: 'conflict', count: 2 },
      ],
      rules: () => [],
      leases: () => ['fresh', 'fresh', 'overdue'].map((age) => ({ vault: 'https://vault', age })),
      payloadCacheBytes: () => 1024,
    });
    metrics.leader.set({}, 1);
    let text = await metrics.text();
    for (const expected of [
      'keyferry_queue_depth{queue="rules"} 3',
      'keyferry_queue_oldest_age_seconds{queue="rules"} 0.5',
      'keyferry_queue_retries_total{queue="rules"} 2',
      'keyferry_watch_last_activity_seconds{cluster="local",kind="Secret",watch="copies"} 12.5',
      'keyferry_watch_synced{cluster="local",kind="Secret",watch="copies"} 1',
      'keyferry_watch_synced{cluster="local",kind="Namespace",watch="all"} 0',
      'keyferry_watch_connected{cluster="local",kind="Secret",watch="copies"} 1',
      'keyferry_watch_connected{cluster="local",kind="Namespace",watch="all"} 0',
      'keyferry_vault_leases{vault="https://vault",age="fresh"} 2',
      'keyferry_vault_leases{vault="https://vault",age="overdue"} 1',
      'keyferry_claims{system="mirrors",state="synced"} 10',
      'keyferry_claims{system="mirrors",state="conflict"} 2',
      'keyferry_conflicts{system="mirrors"} 2',
      'keyferry_payload_cache_bytes 1024',
      'keyferry_leader 1',
    ]) {
      assert.ok(text.includes(`${expected}\n`), `${expected} is missing in\n${text}`);
    }
    assert.equal(samples(text, 'keyferry_watch_connected').length, 2, 'a watch that need not be open has no series');
    depth = 0;
    text = await metrics.text();
    assert.ok(text.includes('keyferry_queue_depth{queue="rules"} 0\n'));
    assert.ok(text.includes('keyferry_queue_retries_total{queue="rules"} 2\n'), 'read again, not added up');
  });

  it('a request of 20 ms counts in the bucket of 25 ms and not in the bucket of 10 ms', async () => {
    const metrics = createMetrics('1');
    metrics.kubeRequests.inc({ cluster: 'local', method: 'GET', code: '200' });
    metrics.kubeRequestSeconds.observe({ cluster: 'local', method: 'GET' }, 0.02);
    const text = await metrics.text();
    assert.match(text, /keyferry_kube_request_duration_seconds_bucket\{le="0.01",cluster="local",method="GET"\} 0/);
    assert.match(text, /keyferry_kube_request_duration_seconds_bucket\{le="0.025",cluster="local",method="GET"\} 1/);
  });

  it('a controller can add its own metrics; a second metric with the same name throws', async () => {
    const metrics = createMetrics('1');
    const { registry } = metrics;
    registry.counter('kubelb_ccm_sync_secret_reconcile_total', 'Reconciles', ['namespace', 'result']).inc({
      namespace: 'a',
      result: 'success',
    });
    assert.match(await metrics.text(), /kubelb_ccm_sync_secret_reconcile_total\{namespace="a",result="success"\} 1/);
    assert.throws(() => registry.gauge('keyferry_leader', 'x', []), /keyferry_leader/);
  });
});
