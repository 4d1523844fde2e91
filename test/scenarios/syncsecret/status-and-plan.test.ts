/** `keyferry status` and `keyferry plan` in both kinds of cluster. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { ControlPlane } from '../../servers/control-plane.ts';
import { waitFor } from '../../support/wait-for.ts';
import { runProgram } from '../cli/program.ts';
import { OFFERED, secretPath, SyncSecretScene, syncSecretPath } from './support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

async function report(plane: ControlPlane, ...args: readonly string[]): Promise<Json> {
  const { code, stdout, stderr } = await runProgram([
    'status',
    '-o',
    'json',
    '--kubeconfig',
    plane.kubeconfigPath,
    ...args,
  ]);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

const ruleOf = ({ rules }: Json, name: string): Json => rules.find((rule: Json) => rule.name === name);

describe('status', () => {
  it('has a SyncSecret of a tenant in both clusters, and its Secret in the management cluster', async () => {
    const { tenant } = await scene.running();
    const object = await scene.create('default', 'seen', { a: 'one' });
    const { copy, secret } = await scene.arrived(tenant, object, { a: 'one' });
    await scene.phase(object, 'Synced');
    await scene.phase(copy, 'Synced', { api: scene.managementApi });
    const [here, there] = await Promise.all([
      report(scene.clusters.tenantPlane),
      report(scene.clusters.managementPlane, '-n', tenant.namespace),
    ]);
    const place = `${tenant.namespace}/${object.metadata.uid}`;
    const own = ruleOf(here, 'seen');
    assert.deepEqual(own.destinations, [`syncsecret ${place} in management`]);
    assert.deepEqual([own.system, own.state, own.ready, own.reason], ['syncsecret', 'Synced', true, 'Synced']);
    const remote = ruleOf(there, object.metadata.uid);
    assert.deepEqual([remote.state, remote.ready], ['Synced', true]);
    assert.deepEqual(
      remote.copies.map(({ kind, name }: Json) => [kind, name]),
      [['Secret', secret.metadata.name]],
    );
    assert.deepEqual([here.orphans, there.orphans], [[], []]);
  });

  it('has a Secret whose SyncSecret is gone as an orphan', async () => {
    const manager = await scene.manager();
    const api = scene.managementApi;
    const object = await scene.create('default', 'left', { a: 'one' }, {}, api);
    const { secret } = await scene.made(object, { a: 'one' });
    await scene.phase(object, 'Synced', { api });
    await manager.kill9();
    // Without its owner reference, so that the garbage collector leaves it.
    await api.patch(`/api/v1/namespaces/default/secrets/${secret.metadata.name}`, {
      metadata: { ownerReferences: null },
    });
    const path = syncSecretPath('default', 'left');
    await api.patch(path, { metadata: { finalizers: null } });
    await api.delete(path);
    await waitFor(async () => (await api.find(path)) === undefined, { message: 'the SyncSecret to be gone' });
    const { orphans } = await report(scene.clusters.managementPlane);
    assert.deepEqual(
      orphans.map(({ name, owner, reason }: Json) => [name, owner, reason]),
      [[secret.metadata.name, 'default/left', 'its SyncSecret does not exist; Keyferry will delete it']],
    );
    await scene.manager();
    await scene.gone(api, secret);
  });

  it('has a SyncSecret as an orphan whose Secret is gone or no longer offered, and a Secret with marks of another place', async () => {
    const { tenantApi, managementApi } = scene;
    const tenant = await scene.tenant();
    const args = ['--enable-secret-synchronizer'];
    const [ccm, manager] = await Promise.all([scene.ccm(tenant, { args }), scene.manager()]);
    const names = ['deleted', 'kept', 'unlabelled'];
    for (const name of names) {
      const metadata = { namespace: 'default', name, labels: OFFERED };
      await tenantApi.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: scene.data({ a: 'one' }) });
    }
    const find = (name: string): Promise<Json> => tenantApi.find(syncSecretPath('default', name));
    const made = await Promise.all(names.map((name) => waitFor(() => find(name), { message: name })));
    const [first] = await Promise.all(made.map((one) => scene.arrived(tenant, one, { a: 'one' })));
    await Promise.all([ccm.kill9(), manager.kill9()]);
    await tenantApi.delete(secretPath('default', 'deleted'));
    await tenantApi.patch(secretPath('default', 'unlabelled'), { metadata: { labels: null } });
    const { labels, annotations } = first?.secret.metadata ?? {};
    const clone = { namespace: tenant.namespace, name: 'clone', labels, annotations };
    await managementApi.create({ apiVersion: 'v1', kind: 'Secret', metadata: clone });
    const [here, there] = await Promise.all([
      report(scene.clusters.tenantPlane),
      report(scene.clusters.managementPlane, '-n', tenant.namespace),
    ]);
    const lines = ({ orphans }: Json): string[] =>
      orphans.map(({ kind, name, reason }: Json) => `${kind} ${name}: ${reason}`);
    const reason = 'its Secret is gone, or no longer has the label; the secret synchronizer will delete it';
    assert.deepEqual(lines(here), [`SyncSecret deleted: ${reason}`, `SyncSecret unlabelled: ${reason}`]);
    assert.deepEqual(lines(there), ['Secret clone: its marks were changed, or it is a clone; Keyferry ignores it']);
    await Promise.all([scene.ccm(tenant, { args }), scene.manager()]);
    for (const name of ['deleted', 'unlabelled']) await waitFor(async () => (await find(name)) === undefined);
    assert.deepEqual((await report(scene.clusters.tenantPlane)).orphans, []);
  });

  it('has the Secret that cannot be written, and why', async () => {
    const { tenant } = await scene.running();
    const object = await scene.create('default', 'unfit', { 'tls.crt': 'x' }, { type: 'kubernetes.io/tls' });
    await scene.phase(object, 'Failed');
    const copy = await scene.findCopy(tenant, object);
    const [here, there] = await Promise.all([
      report(scene.clusters.tenantPlane),
      report(scene.clusters.managementPlane, '-n', tenant.namespace),
    ]);
    for (const rule of [ruleOf(here, 'unfit'), ruleOf(there, copy.metadata.name)]) {
      assert.deepEqual([rule.state, rule.ready, rule.reason, rule.copies], ['Failed', false, 'SyncFailed', []]);
      assert.match(rule.message, /data\[tls\.key\]/);
    }
    assert.deepEqual(
      ruleOf(there, copy.metadata.name).failing.map(({ kind, name }: Json) => [kind, name]),
      [['Secret', copy.metadata.uid]],
    );
  });
});

describe('plan', () => {
  const manifest = (name: string, more: Json): string =>
    JSON.stringify({
      apiVersion: 'kubelb.k8c.io/v1alpha1',
      kind: 'SyncSecret',
      metadata: { name, namespace: 'default' },
      ...more,
    });
  const plan = async (plane: ControlPlane, text: string): Promise<Json> => {
    const { stdout, stderr } = await runProgram(
      ['plan', '-', '-o', 'json', '--kubeconfig', plane.kubeconfigPath],
      text,
    );
    assert.equal(stderr, '');
    return JSON.parse(stdout);
  };

  it('shows the change of a Secret, and what becomes of a new SyncSecret and of one of a tenant', async () => {
    await scene.running();
    const api = scene.managementApi;
    const object = await scene.create('default', 'planned', { a: 'one' }, {}, api);
    await scene.made(object, { a: 'one' });
    await scene.phase(object, 'Synced', { api });
    const { managementPlane, tenantPlane } = scene.clusters;
    const same = await plan(managementPlane, manifest('planned', { data: scene.data({ a: 'one' }) }));
    assert.deepEqual([same.targets, same.unchanged], [[], 1]);
    const changed = await plan(managementPlane, manifest('planned', { data: scene.data({ a: 'two' }) }));
    assert.deepEqual(
      changed.targets.map(({ action, kind, name }: Json) => [action, kind, name]),
      [['update', 'Secret', object.metadata.uid]],
    );
    const retyped = await plan(managementPlane, manifest('planned', { type: 'example.com/other' }));
    assert.deepEqual(
      retyped.targets.map(({ action }: Json) => action),
      ['replace'],
    );
    const added = await plan(managementPlane, manifest('new', { stringData: { a: 'x' } }));
    assert.match(added.notes[0].note, /named by its uid/);
    const propagated = await scene.create('default', 'propagated', { a: 'one' });
    await scene.phase(propagated, 'Synced');
    const tenants = await plan(tenantPlane, manifest('propagated', { data: scene.data({ a: 'two' }) }));
    assert.match(tenants.notes[0].note, /is copied to tenant-\S+ of the management cluster/);
  });
});
