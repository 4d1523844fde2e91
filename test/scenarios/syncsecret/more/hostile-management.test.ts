/**
 * Tests a hostile user of the management cluster, who writes everything that the API accepts to the objects of a
 * tenant. The tenant must not be harmed.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import { readAuditLog } from '../../../support/audit-log.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { syncSecretPath, SyncSecretScene } from '../support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
after(async () => await scene.close());

/** An object without its status, and without the fields that a status write changes. */
function essence(object: Json): Json {
  const { resourceVersion: _version, managedFields: _fields, ...metadata } = object.metadata;
  return { ...object, status: undefined, metadata };
}

const LONG = 'x'.repeat(32_000);
const CONTROL = '\u001B[2J\u001B]0;owned\u0007\u009B\u200E\u202E\u2066\u2028\uFEFF';

it("a hostile user of the management cluster can change only phase and condition of a tenant's SyncSecret, with a limited message", async () => {
  const { tenantPlane, ccmUser } = scene.clusters;
  const admin = scene.managementApi;
  const victim = await scene.tenant();
  const ccm = await scene.ccm(victim);
  const object = await scene.create('default', 'mine', { a: '1' });
  const copy = await waitFor(() => scene.findCopy(victim, object));
  await scene.phase(object, 'Pending');
  const before = await scene.tenantApi.get(syncSecretPath('default', 'mine'));
  const requests = readAuditLog(tenantPlane, ccmUser).length;
  const path = syncSecretPath(victim.namespace, copy.metadata.name);
  const report = async (status: object): Promise<void> => {
    await admin.patch(`${path}/status`, { status });
  };
  const condition = (more: object): object => {
    return { type: 'Synced', status: 'False', reason: 'X', message: '', lastTransitionTime: rfc3339, ...more };
  };
  const rfc3339 = '2020-01-01T00:00:00Z';
  const { generation } = copy.metadata;

  // Keyferry ignores a status whose generation is not that of the copy.
  for (const observedGeneration of [Number.MAX_SAFE_INTEGER, -1, 0]) {
    await report({ phase: 'Synced', observedGeneration, conditions: [condition({ status: 'True' })] });
  }
  await report({ phase: CONTROL, observedGeneration: generation, conditions: [condition({ message: LONG })] });
  await report({ phase: LONG, observedGeneration: generation, conditions: null });
  // A later status with the right generation shows that Keyferry has seen the earlier statuses.
  const message = `${CONTROL} tls: ${LONG}`;
  const failed = { phase: 'Failed', observedGeneration: generation };
  await report({ ...failed, conditions: [condition({ reason: 'Odd:reason,_of_Nobody', message })] });
  const { status } = await scene.phase(object, 'Failed', { reason: 'SyncFailed', message: / tls: x/ });
  const seen = status.conditions[0].message as string;
  assert.ok(seen.length <= 512, `${seen.length} characters`);
  assert.doesNotMatch(seen, /[\p{Cc}\p{Cf}\u2028\u2029]/u);
  const many = Array.from({ length: 500 }, (_, index) =>
    condition({ type: `Other${index}`, message: 'x'.repeat(100) }),
  );
  await report({ ...failed, conditions: [...many, condition({ reason: 'R', message: 'one of many' })] });
  await scene.phase(object, 'Failed', { reason: 'R', message: /^one of many$/ });

  // A forged copy, and the real copy with forged marks: both name another SyncSecret of the tenant.
  const other = await scene.create('default', 'other', { a: '1' });
  const otherCopy = await waitFor(() => scene.findCopy(victim, other));
  const mark = otherCopy.metadata.annotations['keyferry.dev/origin'];
  const forged = {
    labels: { 'kubelb.k8c.io/origin-name': 'other', 'kubelb.k8c.io/origin-ns': 'default' },
    annotations: {
      'keyferry.dev/origin': mark,
      'k8s-replicator/replicate-to': 'x',
    },
  };
  await scene.create(victim.namespace, 'forged', { a: 'theirs' }, { metadata: forged }, admin);
  await admin.patch(path, { metadata: forged, data: scene.data({ a: 'theirs' }) });
  await waitFor(
    async () => {
      const repaired = await admin.get(path);
      return repaired.metadata.annotations['keyferry.dev/origin'] !== mark && repaired.data.a === scene.value('1');
    },
    { message: () => `the copy to be repaired\n${scene.tail()}` },
  );
  await admin.patch(`${path}/status`, {
    status: { phase: 'Synced', observedGeneration: (await admin.get(path)).metadata.generation },
  });
  await scene.phase(object, 'Synced');
  await scene.phase(other, 'Pending');

  const now = await scene.tenantApi.get(syncSecretPath('default', 'mine'));
  assert.deepEqual(essence(now), essence(before));
  const names = (await scene.tenantApi.list('/apis/kubelb.k8c.io/v1alpha1/syncsecrets')).map(
    ({ metadata }) => metadata.name,
  );
  assert.deepEqual(new Set(names), new Set(['mine', 'other']));
  // Events and lines of the audit log come later than the objects. Wait for them.
  await scene.requests(victim).settled();
  const writes = readAuditLog(tenantPlane, ccmUser)
    .slice(requests)
    .filter(({ verb }) => !['get', 'list', 'watch'].includes(verb))
    .map(({ verb, resource, name }) => (resource === 'events' ? 'create events' : `${verb} ${resource} ${name}`));
  assert.deepEqual([...new Set(writes)].toSorted(), [
    'create events',
    'patch syncsecrets other',
    'patch syncsecrets/status mine',
    'patch syncsecrets/status other',
  ]);
  assert.ok(ccm.running);
  assert.equal(ccm.output.includes('\u001B'), false);
});
