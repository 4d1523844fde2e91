/**
 * SyncSecret: SyncSecrets are created, changed and deleted while the management cluster is down; or the management
 * cluster is restored from a backup.
 */
import assert from 'node:assert/strict';
import { cp, rm } from 'node:fs/promises';
import path from 'node:path';
import { after, before, beforeEach, it } from 'node:test';

import { isWrite, lineOf } from '../scenarios/syncsecret/requests.ts';
import { syncSecretPath, syncSecretsPath, SyncSecretScene } from '../scenarios/syncsecret/support.ts';
import type { Json } from '../support/api.ts';
import type { Tenant } from '../support/sync-secret-clusters.ts';
import { waitFor } from '../support/wait-for.ts';
import { within } from '../support/yardstick.ts';

const NAMESPACE = 'outage';
/** How many SyncSecrets are created while the cluster is down. Together with the changed and deleted ones, 100. */
const MADE = 40;
const CHANGED = 30;
const DELETED = 30;
/** Limit from the end of the outage until all Secrets are right on an idle machine, ms. */
const RECOVERY_MS = 10_000;
const PARALLEL = 16;
/**
 * How many objects are created after the backup. The restored API server makes some writes at its start, too; their
 * versions must stay far below the versions of these objects.
 */
const LATER_WRITES = 300;

let scene: SyncSecretScene;
before(async () => {
  scene = await SyncSecretScene.open({ management: { own: true } });
  await scene.namespaces(NAMESPACE);
});
beforeEach(() => scene.clear());
after(() => scene.close());

const named = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, n) => `${prefix}-${n}`);
const own = (name: string): string => syncSecretPath(NAMESPACE, name);

async function inParallel(names: readonly string[], work: (name: string) => Promise<unknown>): Promise<void> {
  const rest = names.values();
  const worker = async (): Promise<void> => {
    for (const name of rest) await work(name);
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
}

/** Waits until exactly these SyncSecrets exist, all with phase Synced, and exactly their Secrets, with these values. */
async function right(tenant: Tenant, wanted: ReadonlyMap<string, string>): Promise<void> {
  let wrong: string[] = [];
  const isSettled = ({ metadata, status }: Json): boolean =>
    status?.phase === 'Synced' && status.observedGeneration === metadata.generation;
  const look = async (): Promise<boolean> => {
    const objects = await scene.tenantApi.list(syncSecretsPath(NAMESPACE));
    wrong = objects.filter((object) => !isSettled(object)).map(({ metadata }) => metadata.name);
    if (wrong.length > 0) return false;
    const [copies, secrets] = await Promise.all([
      scene.managementApi.list(syncSecretsPath(tenant.namespace)),
      scene.managementApi.list(`/api/v1/namespaces/${tenant.namespace}/secrets`),
    ]);
    const values = new Map(secrets.map(({ metadata, data }: Json) => [metadata.name, data.a]));
    const uids = new Map(copies.map(({ metadata }: Json) => [metadata.name, metadata.uid]));
    const isRight = ({ metadata }: Json): boolean => values.get(uids.get(metadata.uid)) === wanted.get(metadata.name);
    wrong = objects.filter((object) => !isRight(object)).map(({ metadata }) => metadata.name);
    const sizes = [objects, copies, secrets].map(({ length }) => length);
    if (wrong.length === 0) wrong = sizes.filter((size) => size !== wanted.size).map((size) => `${size} objects`);
    return wrong.length === 0;
  };
  await waitFor(look, {
    timeoutMs: 240_000,
    message: () => `${wrong.length}: ${wrong.slice(0, 5).join(' ')}\n${scene.tail()}`,
  });
}

/** Stops API server and etcd of the management cluster, changes the files of etcd, and starts both again. */
async function offline(work: (folder: string) => Promise<void>): Promise<void> {
  const { managementPlane } = scene.clusters;
  await managementPlane.servers.killApiServer();
  await managementPlane.servers.killEtcd();
  await work(path.join(managementPlane.folder, 'etcd'));
  await managementPlane.servers.startEtcd();
  await managementPlane.servers.startApiServer();
}

it('after etcd of the management cluster is restored from a backup, CCM and manager exit with the reason; after a restart, all Secrets are right', async () => {
  const backup = path.join(scene.clusters.managementPlane.folder, 'backup');
  const tenant = await scene.tenant();
  const args = ['--watch-idle-timeout=2s'];
  const programs = await Promise.all([scene.ccm(tenant, { args }), scene.manager({ args })]);
  const kept = await scene.create(NAMESPACE, 'kept', { a: 'old' });
  const dropped = await scene.create(NAMESPACE, 'dropped', { a: 'old' });
  for (const one of [kept, dropped]) {
    await scene.arrived(tenant, one, { a: 'old' });
    await scene.phase(one, 'Synced');
  }
  await offline((folder) => cp(folder, backup, { recursive: true }));
  await scene.managementApi.createNamespaces(Array.from({ length: LATER_WRITES }, (_, n) => `later-${n}`));
  await scene.change(scene.tenantApi, kept, { a: 'new' });
  await scene.arrived(tenant, kept, { a: 'new' });
  const made = await scene.create(NAMESPACE, 'made', { a: 'later' });
  await scene.arrived(tenant, made, { a: 'later' });
  await scene.tenantApi.delete(syncSecretPath(NAMESPACE, 'dropped'));
  await scene.gone(scene.tenantApi, dropped);
  for (const one of programs) assert.ok(one.running, 'an outage of the API server ends no program');

  await offline(async (folder) => {
    await rm(folder, { recursive: true });
    await cp(backup, folder, { recursive: true });
  });
  for (const one of programs) {
    await waitFor(() => !one.running, { message: () => `the rollback to be noticed\n${scene.tail()}` });
    assert.equal((await one.stop()).code, 1);
    assert.match(one.output, /the API server returned an older state than before \(.+\), as after an etcd restore/u);
  }

  await Promise.all([scene.ccm(tenant), scene.manager()]);
  for (const [one, value] of [
    [kept, 'new'],
    [made, 'later'],
  ]) {
    await scene.arrived(tenant, one, { a: value });
    await scene.phase(one, 'Synced');
  }
  // After the restore, copy and Secret of the deleted SyncSecret exist again. They must be deleted.
  for (const collection of [syncSecretsPath(tenant.namespace), `/api/v1/namespaces/${tenant.namespace}/secrets`]) {
    await waitFor(async () => (await scene.managementApi.list(collection)).length === 2, {
      message: () => `no orphan in ${collection}\n${scene.tail()}`,
    });
  }
});

it('after an outage in which 100 SyncSecrets were created, changed and deleted, all Secrets are soon right, with one write for each object', async (t) => {
  const { managementPlane } = scene.clusters;
  const { tenant, ccm, manager } = await scene.running();
  const [made, changed, deleted] = [named('made', MADE), named('changed', CHANGED), named('deleted', DELETED)];
  const [before, later] = [scene.value('before'), scene.value('later')];
  const create = (name: string): Promise<unknown> => scene.create(NAMESPACE, name, { a: 'before' });
  await inParallel([...changed, ...deleted], create);
  await right(tenant, new Map([...changed, ...deleted].map((name) => [name, before])));

  await managementPlane.servers.killApiServer();
  await waitFor(async () => (await ccm.metric('kubelb_ccm_kubelb_cluster_connected')) === 0, {
    message: 'the CCM to notice',
  });
  await inParallel(made, create);
  await inParallel(changed, (name) => scene.tenantApi.patch(own(name), { data: { a: later } }));
  await inParallel(deleted, (name) => scene.tenantApi.delete(own(name)));
  const last = await scene.tenantApi.get(own(made.at(-1) ?? ''));
  await scene.phase(last, 'Pending', { reason: 'ClusterUnreachable' });
  assert.ok(await ccm.isReady(), 'the CCM is ready for what is local');
  assert.ok(ccm.running && manager.running, 'an outage ends no program');

  const requests = scene.requests(tenant).fromNow();
  await managementPlane.servers.startApiServer();
  const from = performance.now();
  const wanted = new Map([
    ...changed.map((name) => [name, later] as const),
    ...made.map((name) => [name, before] as const),
  ]);
  await within(RECOVERY_MS, 'recovery', () => right(tenant, wanted));
  t.diagnostic(`right after ${Math.round(performance.now() - from)} ms`);
  const counts = new Map<string, number>();
  for (const entry of requests()) {
    if (!isWrite(entry) || entry.code >= 300 || entry.namespace !== tenant.namespace) continue;
    counts.set(lineOf(entry), (counts.get(lineOf(entry)) ?? 0) + 1);
  }
  const repeated = [...counts].filter(([, count]) => count > 1);
  assert.deepEqual(repeated, [], 'each object is written once');
  assert.equal([...counts.keys()].filter((line) => line.startsWith('create secrets ')).length, MADE);
});
