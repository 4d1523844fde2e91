/**
 * Tests the requests of the programs: none while nothing changes, and none at a restart. For the writes of one SyncSecret
 * see test/faults/syncsecret-writes.test.ts.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { syncSecretPath, SyncSecretScene } from '../support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

const VALUES = { a: 'one', b: 'two' };
const OTHER_CONDITION = {
  type: 'Other',
  status: 'True',
  reason: 'Other',
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
};

/**
 * Creates SyncSecrets that a program could write again and again, because the server returns a field differently from
 * how it was written.
 */
async function specimens(namespace: string): Promise<Json[]> {
  await scene.namespaces(namespace);
  const { canary } = scene;
  const more: Readonly<Record<string, Json>> = {
    plain: {},
    'with-string-data': { data: undefined, stringData: { a: `${canary}a`, empty: '' } },
    'with-both': { stringData: { a: `${canary}over`, c: `${canary}c` } },
    'with-a-type': { type: 'example.com/own' },
    'with-a-token-type': { type: 'kubernetes.io/service-account-token' },
    'with-stray-bits': { data: { a: withStrayBits(canary) } },
    'without-data': { data: undefined },
    immutable: { immutable: true },
    'not-immutable': { immutable: false },
    ['long-'.padEnd(253, 'n')]: {},
    'with-metadata': {
      metadata: { labels: { app: 'web', 'app.kubernetes.io/managed-by': 'Helm' }, annotations: { note: 'x' } },
    },
    'with-an-owner': { metadata: { ownerReferences: [await ownerIn(namespace)] } },
  };
  const objects = Object.entries(more).map(([name, fields]) => scene.create(namespace, name, VALUES, fields));
  return await Promise.all(objects);
}

/** A base64 text whose last character has stray bits, which belong to no byte. */
function withStrayBits(text: string): string {
  const padding = 'x'.repeat(3 - ((Buffer.byteLength(text) + 2) % 3));
  const bytes = Buffer.from(text + padding);
  const base64 = bytes.toString('base64');
  assert.match(base64, /[AQgw]==$/);
  const stray = base64.replace(/.==$/, (end) => `${String.fromCharCode(end.charCodeAt(0) + 1)}==`);
  assert.deepEqual(Buffer.from(stray, 'base64'), bytes);
  return stray;
}

/** Creates an object in the tenant's cluster. @returns an owner reference to it */
async function ownerIn(namespace: string): Promise<Json> {
  const owner = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: 'owner' } };
  const { metadata } = await scene.tenantApi.create(owner);
  return { apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: metadata.uid };
}

describe('settled SyncSecrets', () => {
  it('SyncSecrets that are Synced cause no writes and no reads of objects, even at a restart or when others write annotations or conditions', async () => {
    const { managementApi, tenantApi } = scene;
    const { tenant, ccm, manager } = await scene.running();
    const objects = await specimens('settled');
    const chains = await Promise.all(
      objects.map(async (object) => {
        await scene.phase(object, 'Synced');
        const copy = await scene.findCopy(tenant, object);
        return { object, copy, secret: await scene.findSecret(copy) };
      }),
    );
    // A repair leaves the name of the other client in `managedFields`. This name must not cause writes later.
    const [first, second] = chains;
    assert.ok(first !== undefined && second !== undefined);
    await scene.change(managementApi, { ...first.secret, kind: 'Secret' }, { a: 'edited' });
    await scene.change(managementApi, second.copy, { a: 'edited' });
    const edited = second.copy.metadata.generation + 1;
    const isRepaired = async (): Promise<boolean> =>
      (await scene.findCopy(tenant, second.object)).metadata.generation > edited;
    await waitFor(isRepaired, { message: () => `the copy to be repaired\n${scene.tail()}` });
    await scene.arrived(tenant, first.object, VALUES);
    // Only the status of the last generation shows that the repair has ended. On a slow machine the writes of the
    // repair are seconds apart.
    await scene.phase(second.copy, 'Synced', { api: managementApi });
    for (const { object, copy } of chains) {
      await scene.phase(copy, 'Synced', { api: managementApi });
      await scene.phase(object, 'Synced');
    }
    const requests = scene.requests(tenant);
    await requests.settled();

    await requests.assertNone(async () => {
      const noted = { metadata: { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '{}' } } };
      for (const { object, copy } of chains) {
        await tenantApi.patch(syncSecretPath('settled', object.metadata.name), noted);
        for (const [api, one] of [
          [tenantApi, object],
          [managementApi, copy],
        ] as const) {
          const path = `${syncSecretPath(one.metadata.namespace, one.metadata.name)}/status`;
          const { conditions } = (await api.get(path)).status;
          await api.patch(path, { status: { conditions: [...conditions, OTHER_CONDITION] } });
        }
      }
    });
    await requests.assertNone(async () => {
      await Promise.all([ccm.stop(), manager.kill9()]);
      await Promise.all([scene.ccm(tenant), scene.manager()]);
    });
    // This shows that both programs work after the restart.
    await scene.arrived(tenant, await scene.create('settled', 'last', VALUES), VALUES);
  });
});

describe('two CCMs with different tenant names in one cluster', () => {
  it('if two CCMs with different tenant names run in one cluster, both copy its SyncSecrets, and they do not overwrite each other again and again', async () => {
    const [one, two] = [await scene.tenant(), await scene.tenant()];
    await Promise.all([scene.ccm(one), scene.ccm(two), scene.manager()]);
    const object = await scene.create('settled', 'shared', VALUES);
    const { copy } = await scene.arrived(one, object, VALUES);
    const { copy: otherCopy } = await scene.arrived(two, object, VALUES);
    const requests = scene.requests(one);
    await requests.settled();
    await requests.assertNone(async () => await scene.phase(object, 'Synced'));
    await scene.tenantApi.delete(syncSecretPath('settled', 'shared'));
    await scene.gone(scene.tenantApi, object);
    await scene.gone(scene.managementApi, copy, otherCopy);
  });
});
