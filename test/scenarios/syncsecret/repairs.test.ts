/**
 * Tests repairs: another client changes a Secret or a copy of a SyncSecret, and Keyferry restores it at once, or after
 * the next start.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { rowsOf } from '../../support/long.ts';
import type { Tenant } from '../../support/sync-secret-clusters.ts';
import { waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import type { Chain } from './support.ts';
import { ALL_TRAVEL, essence, pathOf, SyncSecretScene } from './support.ts';

let scene: SyncSecretScene;
let tenant: Tenant;
before(async () => (scene = await SyncSecretScene.open()));
beforeEach(async () => ({ tenant } = await scene.kept(ALL_TRAVEL)));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

/** Time limit for all repairs together, ms on an idle machine. It is too short for retries after failures. */
const REPAIRED_MS = 10_000;
const FOREIGN = 'example.com/foreign';
const VALUES = { a: 'one', b: 'two' };
const metadata = { labels: { app: 'web', team: 'a' }, annotations: { note: 'x' } };

/** A change of another client: a merge patch, or a deletion. */
type Edit = object | 'delete' | 'force';
type Edits = Readonly<Record<string, Edit>>;

const unknownOwner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'x', uid: '3d8f4a52-9b1f-4a35-9f0e-0a3a6d1c7f11' };
const edited = Buffer.from('edited').toString('base64');

const EDITS: Edits = {
  'a value': { data: { a: edited } },
  'a new key': { data: { c: edited } },
  'a removed key': { data: { a: null } },
  'no data': { data: null },
  'a label': { metadata: { labels: { app: 'other' } } },
  'a removed label': { metadata: { labels: { app: null } } },
  'no labels': { metadata: { labels: null } },
  'an annotation': { metadata: { annotations: { note: 'other' } } },
  'a removed annotation': { metadata: { annotations: { note: null } } },
  'a label that the source does not have': { metadata: { labels: { [FOREIGN]: 'x' } } },
  'annotations that the source does not have': {
    metadata: { annotations: { [FOREIGN]: 'x', 'keyferry.dev/retain': 'true', 'k8s-replicator/replicate-to': 'a' } },
  },
  immutable: { immutable: true },
  'immutable with other data': { immutable: true, data: { a: edited } },
  deleted: 'delete',
  'deleted by force': 'force',
};

const SECRET_EDITS: Edits = {
  ...EDITS,
  'no label of the watch': { metadata: { labels: { 'keyferry.dev/copy': null } } },
  'another label of the watch': { metadata: { labels: { 'keyferry.dev/copy': 'mirrors' }, annotations: null } },
  'no annotations': { metadata: { annotations: null } },
  'no labels and annotations': { metadata: { labels: null, annotations: null } },
  'no owner': { metadata: { ownerReferences: null } },
  'another owner': { metadata: { ownerReferences: [unknownOwner] } },
  'the mark of another SyncSecret': { metadata: { annotations: { 'keyferry.dev/syncsecret': 'other' } } },
  'no mark but the annotation': { metadata: { ownerReferences: null, labels: null } },
};

const COPY_EDITS: Edits = {
  ...EDITS,
  stringData: { stringData: { a: 'edited' } },
  'another type': { type: 'example.com/other' },
  'no type': { type: null, data: { c: edited } },
  'another origin': { metadata: { labels: { 'kubelb.k8c.io/origin-name': 'other' } } },
  'no origin labels': {
    metadata: {
      labels: {
        'kubelb.k8c.io/origin-name': null,
        'kubelb.k8c.io/origin-ns': null,
        'kubelb.k8c.io/origin-namespace': null,
      },
    },
  },
  'no mark but the labels': { metadata: { annotations: null } },
  'an owner': { metadata: { ownerReferences: [unknownOwner] } },
  'no finalizer': { metadata: { finalizers: null } },
};

async function apply(edit: Edit, object: Json): Promise<void> {
  const api = scene.managementApi;
  if (typeof edit === 'object') await api.patch(pathOf(object), edit);
  else await api.delete(pathOf(object), edit === 'force' ? { gracePeriodSeconds: '0' } : {});
}

interface Case {
  readonly title: string;
  readonly edit: Edit;
  readonly object: Json;
  readonly chain: Chain;
}

/** Creates a SyncSecret for each edit, and waits for its copy and Secret. */
async function prepare(namespace: string, edits: Edits): Promise<Case[]> {
  await scene.namespaces(namespace);
  const objects = await Promise.all(
    Object.keys(edits).map(async (_, index) => await scene.create(namespace, `n${index}`, VALUES, { metadata })),
  );
  const cases: Case[] = [];
  // Check one SyncSecret after the other, because each check sends several requests.
  for (const [index, [title, edit]] of Object.entries(edits).entries()) {
    const object = objects[index];
    await scene.phase(object, 'Synced');
    cases.push({ title, edit, object, chain: await scene.arrived(tenant, object, VALUES) });
  }
  return cases;
}

/** Waits until copy and Secret of each SyncSecret are as they were before. */
async function restored(cases: readonly Case[]): Promise<void> {
  for (const { title, object, chain } of cases) {
    const wanted = { copy: essence(chain.copy), secret: essence(chain.secret) };
    let seen: Json;
    const look = async (): Promise<boolean> => {
      const copy = await scene.findCopy(tenant, object);
      const secret = copy && (await scene.findSecret(copy));
      seen = copy && secret && { copy: essence(copy), secret: essence(secret) };
      assert.deepEqual(seen, wanted);
      return true;
    };
    await waitFor(look, { message: () => `the repair after: ${title}\n${scene.tail()}` });
  }
}

const hops = { Secret: SECRET_EDITS, copy: COPY_EDITS } as const;

for (const [hop, edits] of rowsOf(Object.entries(hops))) {
  const part = ({ chain }: Case): Json => (hop === 'Secret' ? chain.secret : chain.copy);

  describe(`a ${hop} that another client changes`, () => {
    it(`if another client changes or deletes a ${hop} of a SyncSecret, Keyferry restores the ${hop} at once`, async () => {
      const cases = await prepare(`live-${hop.toLowerCase()}`, edits);
      await within(REPAIRED_MS, 'the repairs', async () => {
        await Promise.all(cases.map(async (one) => await apply(one.edit, part(one))));
        await restored(cases);
      });
    });

    it(`if another client changes a ${hop} of a SyncSecret while CCM and manager are down, Keyferry restores the ${hop} after their next start`, async () => {
      const cases = await prepare(`later-${hop.toLowerCase()}`, edits);
      await scene.endKept();
      await Promise.all(cases.map(async (one) => await apply(one.edit, part(one))));
      await scene.kept(ALL_TRAVEL);
      await restored(cases);
    });
  });
}

describe('a copy or Secret whose deletion a finalizer delays', () => {
  const hold = { metadata: { finalizers: [FOREIGN] } };

  it('while a finalizer keeps a deleted Secret, the status says so; when the finalizer is removed, the manager makes the Secret again', async () => {
    const object = await scene.create('default', 'held', VALUES);
    const { copy, secret } = await scene.arrived(tenant, object, VALUES);
    await scene.managementApi.patch(pathOf(secret), hold);
    await scene.managementApi.delete(pathOf(secret));
    const waiting = { reason: 'SyncFailed', message: /is being deleted and waits for its finalizers$/ };
    await scene.phase(copy, 'Failed', { ...waiting, api: scene.managementApi });
    await scene.phase(object, 'Failed', waiting);
    // A change during the wait must be in the new Secret.
    await scene.change(scene.tenantApi, object, { c: 'three' });
    await scene.managementApi.patch(pathOf(secret), { metadata: { finalizers: null } });
    const renewed = await scene.arrived(tenant, object, { c: 'three' }, REPAIRED_MS);
    assert.equal(renewed.secret.metadata.name, secret.metadata.name);
    await scene.phase(object, 'Synced');
  });

  it('when a finalizer that kept a deleted copy is removed, the copy is made again, with a new Secret', async () => {
    const object = await scene.create('default', 'held', VALUES);
    const { copy, secret } = await scene.arrived(tenant, object, VALUES);
    const finalizers = [...copy.metadata.finalizers, FOREIGN];
    await scene.managementApi.patch(pathOf(copy), { metadata: { finalizers } });
    await scene.managementApi.delete(pathOf(copy));
    await scene.gone(scene.managementApi, secret);
    await scene.phase(object, 'Pending', {
      reason: 'Terminating',
      message: /^SyncSecret ".*" is being deleted and waits for its finalizers$/,
    });
    await scene.managementApi.patch(pathOf(copy), { metadata: { finalizers: null } });
    const renewed = await scene.arrived(tenant, object, VALUES, REPAIRED_MS);
    assert.notEqual(renewed.copy.metadata.uid, copy.metadata.uid);
    await scene.phase(object, 'Synced');
  });
});

describe('a tenant’s SyncSecret', () => {
  it("if another client removes the finalizer of a tenant's SyncSecret, the CCM writes it again", async () => {
    const object = await scene.create('default', 'mine', VALUES);
    await scene.arrived(tenant, object, VALUES);
    const settled = await scene.phase(object, 'Synced');
    await scene.tenantApi.patch(pathOf(object), { metadata: { finalizers: null } });
    await waitFor(
      async () => {
        assert.deepEqual(essence(await scene.tenantApi.get(pathOf(object))), essence(settled));
        return true;
      },
      { message: () => `the finalizer to be restored\n${scene.tail()}` },
    );
    await scene.phase(object, 'Synced');
  });

  it("while a tenant's SyncSecret has the origin labels of a copy, it has no copy in the management cluster; it can be deleted all the same", async () => {
    const object = await scene.create('default', 'mine', VALUES);
    const { copy, secret } = await scene.arrived(tenant, object, VALUES);
    const labels = { 'kubelb.k8c.io/origin-name': 'other', 'kubelb.k8c.io/origin-ns': 'default' };
    await scene.tenantApi.patch(pathOf(object), { metadata: { labels } });
    await scene.gone(scene.managementApi, copy, secret);
    await scene.tenantApi.patch(pathOf(object), { metadata: { labels: null } });
    const again = await scene.arrived(tenant, object, VALUES);
    await scene.phase(object, 'Synced');
    await scene.tenantApi.patch(pathOf(object), { metadata: { labels } });
    await scene.tenantApi.delete(pathOf(object));
    await scene.gone(scene.tenantApi, object);
    await scene.gone(scene.managementApi, again.copy, again.secret);
  });
});
