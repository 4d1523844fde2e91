/**
 * Tests status, events and metrics. In the management cluster they are those of KubeLB; in the tenant's cluster they
 * cover SyncSecret, copy and Secret.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import { kubernetesFault } from '../../servers/fault-rules.ts';
import type { Json, TestApi } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { longIt } from '../../support/long.ts';
import { parseMetrics } from '../../support/prometheus.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { syncSecretPath, syncSecretsPath, SyncSecretScene } from './support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

const FOREIGN = 'example.com/foreign';
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/** The status of an object, without the time of the transition. */
function statusOf({ status }: Json): Json {
  const conditions = status.conditions.map(({ lastTransitionTime, ...condition }: Json) => {
    assert.match(lastTransitionTime, TIME);
    return condition;
  });
  return { ...status, conditions };
}

function expected(phase: string, status: string, reason: string, message: string, generation: number): Json {
  const condition = { type: 'Synced', status, reason, message, observedGeneration: generation };
  return { phase, observedGeneration: generation, conditions: [condition] };
}

/** Records the phases of an object from this moment on, each with its generation: `Synced 1`. */
async function phases(api: TestApi, object: Json): Promise<AsyncDisposable & { readonly seen: readonly string[] }> {
  const { namespace, name } = object.metadata;
  const seen: string[] = [];
  const watch = await api.watch(syncSecretsPath(namespace), (event) => {
    const { metadata, status } = event.object;
    if (metadata.name !== name) return;
    const phase = `${status?.phase} ${status?.observedGeneration}`;
    if (seen.at(-1) !== phase) seen.push(phase);
  });
  return { seen, [Symbol.asyncDispose]: async () => await watch.stop() };
}

describe('the status in the management cluster', () => {
  it('the status of a copy is the same as with KubeLB, both after a success and after a failure', async () => {
    await scene.keptManager();
    const api = scene.managementApi;
    const type = 'kubernetes.io/tls';
    const unfit = await scene.create('default', 'unfit', { 'tls.crt': 'x' }, { type }, api);
    const object = await scene.create('default', 'direct', { 'tls.crt': 'x' }, {}, api);

    const synced = await scene.phase(object, 'Synced', { api });
    assert.deepEqual(statusOf(synced), expected('Synced', 'True', 'Synced', 'Secret synced successfully', 1));
    const { 0: condition } = (await scene.phase(unfit, 'Failed', { api })).status.conditions;
    const refusal = (verb: string, uid: string): RegExp =>
      new RegExp(`^failed to ${verb} Secret: Secret "${uid}" is invalid: data\\[tls\\.key\\]: Required `);
    assert.match(condition.message, refusal('create', unfit.metadata.uid));
    assert.deepEqual([condition.status, condition.reason], ['False', 'SyncFailed']);

    await api.patch(syncSecretPath('default', 'direct'), { type });
    const failed = await scene.phase(object, 'Failed', { api });
    const { message } = failed.status.conditions[0];
    assert.match(message, refusal('update', object.metadata.uid));
    assert.deepEqual(statusOf(failed), expected('Failed', 'False', 'SyncFailed', message, 2));

    await api.patch(syncSecretPath('default', 'direct'), { type: null });
    const again = await scene.phase(object, 'Synced', { api });
    assert.deepEqual(statusOf(again), expected('Synced', 'True', 'Synced', 'Secret synced successfully', 3));
  });

  it('while another finalizer keeps a deleted copy, the copy has the phase Terminating and a condition True, as in KubeLB', async () => {
    await scene.keptManager();
    const api = scene.managementApi;
    const metadata = { finalizers: [FOREIGN] };
    const object = await scene.create('default', 'held', { a: 'one' }, { metadata }, api);
    const { secret } = await scene.made(object, { a: 'one' });
    await scene.phase(object, 'Synced', { api });
    await api.delete(syncSecretPath('default', 'held'));
    const held = await scene.phase(object, 'Terminating', { api });
    const { generation } = held.metadata;
    assert.deepEqual(
      statusOf(held),
      expected('Terminating', 'True', 'Terminating', 'SyncSecret is being deleted', generation),
    );
    await scene.gone(api, secret);
    await api.patch(syncSecretPath('default', 'held'), { metadata: { finalizers: null } });
    await scene.gone(api, object);
  });
});

describe('the status in the tenant’s cluster', () => {
  longIt(
    "the tenant's status covers copy and Secret: Synced, Failed with the management cluster's message, or Pending",
    async () => {
      const { tenant, manager } = await scene.kept();
      const object = await scene.create('default', 'whole', { 'tls.crt': 'x' });
      const path = syncSecretPath('default', 'whole');
      const synced = await scene.phase(object, 'Synced');
      assert.deepEqual(statusOf(synced), expected('Synced', 'True', 'Synced', 'Secret synced successfully', 1));

      await scene.tenantApi.patch(path, { type: 'kubernetes.io/tls' });
      const failed = await scene.phase(object, 'Failed');
      const { status: there } = await scene.findCopy(tenant, object);
      assert.match(there.conditions[0].message, /^failed to update Secret: .*data\[tls\.key\]/);
      assert.deepEqual(statusOf(failed), expected('Failed', 'False', 'SyncFailed', there.conditions[0].message, 2));

      await manager.kill9();
      await scene.tenantApi.patch(path, { type: null });
      const pending = await scene.phase(object, 'Pending', { reason: 'Pending' });
      const message = 'the Secret in the management cluster is not made yet';
      assert.deepEqual(statusOf(pending), expected('Pending', 'False', 'Pending', message, 3));
      await scene.keptManager();
      await scene.phase(object, 'Synced');
    },
  );

  it("the tenant's status is Synced for a new generation only after the copy has the change", async () => {
    await scene.kept();
    const { link } = scene.clusters;
    const object = await scene.create('default', 'slow', { a: 'one' });
    await scene.phase(object, 'Synced');
    const release = Promise.withResolvers<void>();
    const rule = link.rule({ match: { method: 'PATCH' }, fault: { kind: 'hold', until: release.promise } });
    await using history = await phases(scene.tenantApi, object);
    await scene.change(scene.tenantApi, object, { a: 'two' });
    await waitFor(() => rule.hits > 0, { message: 'the write of the copy' });
    await scene.phase(object, 'Pending', { message: /^the Secret in the management cluster is not made yet$/ });
    assert.ok(!history.seen.includes('Synced 2'), history.seen.join());
    release.resolve();
    await scene.phase(object, 'Synced');
  });

  it("the status of an earlier version of the copy does not make the tenant's status Synced, even while the watch of copies is late", async () => {
    const { manager } = await scene.kept();
    const { link } = scene.clusters;
    const object = await scene.create('default', 'late', { a: 'one' });
    await scene.phase(object, 'Synced');
    await manager.kill9();
    await using history = await phases(scene.tenantApi, object);
    link.stallAll({ isWatch: true });
    await scene.change(scene.tenantApi, object, { a: 'two' });
    await scene.phase(object, 'Pending', { reason: 'Pending' });
    assert.ok(!history.seen.includes('Synced 2'), history.seen.join());
    await scene.keptManager();
    await scene.phase(object, 'Synced');
  });
});

it('if another client writes the status of a SyncSecret or of its copy, Keyferry replaces this status', async () => {
  const { tenant } = await scene.kept();
  const made = await scene.create('default', 'forged', { a: 'one' });
  const unfit = await scene.create('default', 'spoofed', { a: 'x' }, { type: 'kubernetes.io/tls' });
  const spoofed = { phase: 'Synced', conditions: [] };
  for (const [object, phase, forgeries] of [
    [made, 'Synced', [{ phase: 'Failed', conditions: [] }, { observedGeneration: 99 }, null]],
    [unfit, 'Failed', [spoofed]],
  ] as const) {
    await scene.phase(object, phase);
    const copy = await scene.findCopy(tenant, object);
    for (const status of forgeries) {
      for (const [api, one] of [
        [scene.tenantApi, object],
        [scene.managementApi, copy],
      ] as const) {
        await api.patch(`${syncSecretPath(one.metadata.namespace, one.metadata.name)}/status`, { status });
        // The condition comes back, too: the forged status has none.
        await scene.phase(one, phase, { api, message: /./ });
      }
    }
    await scene.phase(object, phase);
  }
});

describe('events about SyncSecrets', () => {
  const warnings = async (api: TestApi, { metadata }: Json): Promise<Json[]> => {
    const fieldSelector = `involvedObject.kind=SyncSecret,involvedObject.name=${metadata.name},type=Warning`;
    const found = await api.list(`/api/v1/namespaces/${metadata.namespace}/events`, { fieldSelector });
    return found.filter(({ involvedObject }) => involvedObject.uid === metadata.uid);
  };

  longIt('a failure causes one Warning event in each cluster, even if it is retried many times', async () => {
    const { tenant } = await scene.kept();
    const object = await scene.create('default', 'warned', { 'tls.crt': 'x' });
    await scene.phase(object, 'Synced');
    const copy = await scene.findCopy(tenant, object);
    await scene.tenantApi.patch(syncSecretPath('default', 'warned'), { type: 'kubernetes.io/tls' });
    await scene.phase(object, 'Failed');
    const sides = [
      { api: scene.tenantApi, on: object, component: 'kubelb-ccm' },
      { api: scene.managementApi, on: copy, component: 'kubelb-manager' },
    ];
    const texts = await Promise.all(
      sides.map(async ({ api, on, component }) => {
        const event = await scene.event(on, 'SyncFailed', /data\[tls\.key\]/, api);
        const { type, involvedObject, message, source } = event;
        const { apiVersion, kind, namespace, name, uid } = involvedObject;
        assert.deepEqual([type, apiVersion, kind], ['Warning', 'kubelb.k8c.io/v1alpha1', 'SyncSecret']);
        assert.deepEqual([namespace, name, uid], [on.metadata.namespace, on.metadata.name, on.metadata.uid]);
        assert.equal(source.component, component);
        return message;
      }),
    );
    assert.equal(texts[0], texts[1]);
    // This wait is long enough for several retries.
    await staysTrue(
      async () =>
        (await warnings(scene.tenantApi, object)).length === 1 &&
        (await warnings(scene.managementApi, copy)).length === 1,
      3000,
      'one event',
    );
    // A failure with another cause gets a new event.
    await scene.tenantApi.patch(syncSecretPath('default', 'warned'), { type: 'bootstrap.kubernetes.io/token' });
    await scene.event(object, 'SyncFailed', /are never copied/);
    await scene.event(copy, 'SyncFailed', /are never copied/, scene.managementApi);
  });
});

describe('metrics of SyncSecrets', () => {
  /** Reads the reconciliations of a program from its metrics, each as `<namespace> <result> <count>`. */
  async function counts(program: Keyferry, role: string): Promise<string[]> {
    const samples = parseMetrics(await program.metrics());
    const name = `kubelb_${role}_sync_secret_reconcile`;
    const results = samples.filter((sample) => sample.name === `${name}_total`);
    const total = results.reduce((sum, { value }) => sum + value, 0);
    const inBuckets = samples.filter((sample) => sample.name === `${name}_duration_seconds_bucket`);
    const buckets = new Set(inBuckets.map(({ labels }) => labels.le));
    if (total > 0)
      assert.equal([...buckets].join(' '), '0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 +Inf');
    const last = inBuckets.filter(({ labels }) => labels.le === '+Inf').reduce((sum, { value }) => sum + value, 0);
    assert.equal(last, total);
    return results.map(({ labels, value }) => `${labels.namespace} ${labels.result} ${value}`).toSorted();
  }

  longIt(
    "the metrics of SyncSecrets have KubeLB's names, labels and buckets, and count a conflict and a failure as errors",
    async () => {
      await scene.endKept();
      const tenant = await scene.tenant();
      const path = syncSecretPath('default', 'counted');
      const object = await scene.create('default', 'counted', { a: 'one' });
      const foreign = { metadata: { annotations: { 'keyferry.dev/origin': 'another/default/counted' } } };
      const place = syncSecretPath(tenant.namespace, object.metadata.uid);
      await scene.create(tenant.namespace, object.metadata.uid, { a: 'other' }, foreign, scene.managementApi);
      const ccm = await scene.ccm(tenant);
      await scene.phase(object, 'Failed', { reason: 'Conflict' });
      assert.deepEqual(await counts(ccm, 'ccm'), ['default error 1']);

      await scene.managementApi.delete(place);
      const manager = await scene.manager();
      await scene.phase(object, 'Synced');
      assert.deepEqual(await counts(ccm, 'ccm'), ['default error 1']);
      await scene.change(scene.tenantApi, object, { a: 'two' });
      await scene.phase(object, 'Synced');
      assert.deepEqual(await counts(ccm, 'ccm'), ['default error 1', 'default success 1']);

      // The success of the previous version must not count again for the new version.
      const { tenantProxy } = scene.clusters;
      tenantProxy.rule({ match: { method: 'PATCH', path: /syncsecrets\/counted\?/ }, fault: kubernetesFault(500) });
      await scene.tenantApi.patch(path, { metadata: { finalizers: null } });
      await scene.phase(object, 'Failed', { reason: 'SyncFailed' });
      assert.deepEqual(await counts(ccm, 'ccm'), ['default error 2', 'default success 1']);

      const type = 'kubernetes.io/tls';
      const unfit = await scene.create('default', 'unfit', { 'tls.crt': 'x' }, { type }, scene.managementApi);
      await scene.phase(unfit, 'Failed', { api: scene.managementApi });
      assert.deepEqual(await counts(manager, 'manager'), ['default error 1', `${tenant.namespace} success 2`]);
    },
  );
});
