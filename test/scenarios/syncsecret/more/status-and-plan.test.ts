/**
 * Tests the commands `status`, `plan` and `explain` on SyncSecrets, in the tenant's cluster and in the management
 * cluster.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import { explainSchema } from '../../../../scripts/reports/schemas.ts';
import type { Json } from '../../../support/api.ts';
import type { ControlPlane } from '../../../servers/control-plane.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { runProgram } from '../../cli/program.ts';
import { OFFERED, pathOf, secretPath, SyncSecretScene, syncSecretPath } from '../support.ts';

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

async function explained({ kubeconfigPath }: ControlPlane, kind: string, place: string): Promise<Json> {
  const { code, stdout, stderr } = await runProgram(['explain', kind, place, '-ojson', '--kubeconfig', kubeconfigPath]);
  assert.ok(code === 0 || code === 1, stderr);
  const explanation = explainSchema.parse(JSON.parse(stdout));
  assert.equal(code, explanation.object.exists ? 0 : 1, explanation.summary);
  return explanation;
}

const ruleOf = ({ rules }: Json, name: string): Json => rules.find((rule: Json) => rule.name === name);

describe('status', () => {
  it("keyferry status shows a tenant's SyncSecret in both clusters, and its Secret in the management cluster", async () => {
    const { tenant } = await scene.kept();
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
    assert.deepEqual(own.destinations, [`syncsecret ${object.metadata.uid} in management`]);
    assert.deepEqual([own.system, own.state, own.ready, own.reason], ['syncsecret', 'Synced', true, 'Synced']);
    assert.equal(own.source, 'syncsecret default/seen');
    const remote = ruleOf(there, object.metadata.uid);
    assert.equal(remote.source, 'syncsecret default/seen in tenant');
    assert.deepEqual([remote.state, remote.ready], ['Synced', true]);
    assert.deepEqual(
      remote.copies.map(({ kind, name }: Json) => [kind, name]),
      [['Secret', secret.metadata.name]],
    );
    assert.deepEqual([here.orphans, there.orphans], [[], []]);
    const [rule, made] = await Promise.all([
      explained(scene.clusters.tenantPlane, 'syncsecret', 'default/seen'),
      explained(scene.clusters.managementPlane, 'secret', `${tenant.namespace}/${secret.metadata.name}`),
    ]);
    assert.deepEqual([rule.verdict, rule.rule.destinations], ['rule', own.destinations]);
    assert.equal(
      made.summary,
      `Secret ${tenant.namespace}/${secret.metadata.name} is a copy of syncsecret default/seen in tenant, which SyncSecret ${place} makes.`,
    );
    assert.equal(made.heldVersion, made.sourceVersion);
  });

  it("in the management cluster, keyferry status names the tenant's SyncSecret in full, also for KubeLB's copies and for orphans", async () => {
    const { tenant, ccm, manager } = await scene.kept();
    const api = scene.managementApi;
    const long = `long-${'n'.repeat(80)}`;
    const named = await scene.create('default', long, { a: 'one' });
    const lost = await scene.create('default', 'lost', { a: 'one' });
    const { copy } = await scene.arrived(tenant, named, { a: 'one' });
    const left = await scene.arrived(tenant, lost, { a: 'one' });
    await scene.phase(copy, 'Synced', { api });
    const seen = (): Promise<Json> => report(scene.clusters.managementPlane, '-n', tenant.namespace);
    assert.equal(ruleOf(await seen(), copy.metadata.name).source, `syncsecret default/${long} in tenant`);
    await Promise.all([ccm.kill9(), manager.kill9()]);
    await api.patch(pathOf(copy), { metadata: { annotations: { 'keyferry.dev/origin': null } } });
    await api.patch(pathOf(left.copy), { metadata: { finalizers: null } });
    await api.delete(pathOf(left.copy));
    await waitFor(async () => (await api.find(pathOf(left.copy))) === undefined, { message: 'the copy to be gone' });
    const { rules, orphans } = await seen();
    const label = copy.metadata.labels['kubelb.k8c.io/origin-name'];
    assert.equal(ruleOf({ rules }, copy.metadata.name).source, `syncsecret default/${label} in tenant`);
    assert.deepEqual(
      orphans.map(({ name, reason }: Json) => [name, reason]),
      [
        [
          left.secret.metadata.name,
          'its SyncSecret (of default/lost in tenant) does not exist; Keyferry will delete it, or an event says why it cannot',
        ],
      ],
    );
  });

  it('keyferry status lists a SyncSecret as an orphan if its Secret is gone or lost the label, and notes that a clone is ignored', async () => {
    const { tenantApi, managementApi } = scene;
    await scene.endKept();
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

  it('if a Secret cannot be written, keyferry status shows its SyncSecret as Failed and the reason', async () => {
    const { tenant } = await scene.kept();
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

  const planned = async (plane: ControlPlane, text: string): Promise<string> =>
    (await runProgram(['plan', '-', '--kubeconfig', plane.kubeconfigPath], text)).stdout;

  it("keyferry plan shows how a Secret changes, and what a new SyncSecret and a tenant's SyncSecret become", async () => {
    await scene.kept();
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
    const fate =
      'becomes a Secret: in a tenant cluster in the management cluster, which this command does not read; elsewhere in its own namespace, named by its uid';
    assert.equal(added.notes[0].note, fate);
    const propagated = await scene.create('default', 'propagated', { a: 'one' });
    await scene.phase(propagated, 'Synced');
    const tenants = await plan(tenantPlane, manifest('propagated', { data: scene.data({ a: 'two' }) }));
    assert.equal(tenants.notes[0].note, fate);
    const next = await planned(tenantPlane, manifest('next', { stringData: { a: 'x' } }));
    assert.equal(
      next,
      `SyncSecret default/next: ${fate}\n\nNo copy in this cluster would be created, updated or deleted.\n`,
    );
  });
});
