/**
 * Tests the secret synchronizer: a tenant's Secrets with KubeLB's label become SyncSecrets. A SyncSecret follows its
 * Secret, and is deleted with it.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import { kubernetesFault } from '../../servers/fault-rules.ts';
import type { Json } from '../../support/api.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { longIt, rowsOf } from '../../support/long.ts';
import type { Tenant } from '../../support/sync-secret-clusters.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import {
  essence,
  OFFERED,
  ORIGINAL_FINALIZER,
  pathOf,
  secretPath,
  syncSecretPath,
  SyncSecretScene,
} from './support.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => {
  await scene.clear();
  // `clear` deletes only Secrets with the label. So delete here the Secrets without it.
  for (const one of created.splice(0)) {
    if ((await findOffered(one.metadata.name)) === undefined) continue;
    await removeFinalizers(one);
    await scene.tenantApi.delete(pathOf(one));
  }
});
after(async () => await scene.close());

const ON = '--enable-secret-synchronizer';
const FOREIGN = 'example.com/foreign';
const VALUES = { a: 'one', b: 'two' };
const FINALIZER = 'kubelb.k8c.io/lb-finalizer';
const edited = Buffer.from('edited').toString('base64');

/** The CCM with the synchronizer, and the manager. */
async function running(): ReturnType<SyncSecretScene['keptCcm']> {
  const [kept] = await Promise.all([scene.keptCcm({ args: [ON] }), scene.keptManager()]);
  return kept;
}

const created: Json[] = [];

/** Creates a Secret of the tenant, with the label if the test names no other labels. */
async function secret(name: string, more: Json = {}, labels: Json = OFFERED): Promise<Json> {
  const object = await scene.tenantApi.create({
    apiVersion: 'v1',
    kind: 'Secret',
    data: scene.data(VALUES),
    ...more,
    metadata: { ...more.metadata, namespace: 'default', name, labels: { ...labels, ...more.metadata?.labels } },
  });
  created.push(object);
  return object;
}

/** Creates the SyncSecret that KubeLB would make of a Secret. */
async function originals(of: Json): Promise<Json> {
  const { name, namespace, labels } = of.metadata;
  const origin = { 'kubelb.k8c.io/origin-name': name, 'kubelb.k8c.io/origin-ns': namespace };
  const metadata = { labels: { ...labels, ...origin }, finalizers: [ORIGINAL_FINALIZER] };
  return await scene.create(namespace, name, VALUES, { metadata, type: of.type });
}

const find = async (name: string): Promise<Json> => await scene.tenantApi.find(syncSecretPath('default', name));
const findOffered = async (name: string): Promise<Json> => await scene.tenantApi.find(secretPath('default', name));

/** Waits until the SyncSecret exists and passes a check. */
async function synchronized(name: string, check: (syncSecret: Json) => void = () => undefined): Promise<Json> {
  let failure: unknown;
  const look = async (): Promise<Json> => {
    const syncSecret = await find(name);
    if (syncSecret === undefined) return undefined;
    try {
      check(syncSecret);
    } catch (error) {
      failure = error;
      throw error;
    }
    return { ...syncSecret, kind: 'SyncSecret' };
  };
  return await waitFor(look, { message: () => `the SyncSecret ${name}: ${String(failure)}\n${scene.tail()}` });
}

/** Waits until a new SyncSecret exists that has the name of a deleted one. */
async function renewed({ metadata: { name, uid } }: Json): Promise<Json> {
  return await synchronized(name, ({ metadata }) => {
    assert.notEqual(metadata.uid, uid);
  });
}

/** Waits until the Secret has arrived in the management cluster and its SyncSecret is Synced. */
async function arrived(tenant: Tenant, name: string): Promise<{ readonly made: Json; readonly copies: Json[] }> {
  const made = await synchronized(name);
  const { copy, secret: away } = await scene.arrived(tenant, made, VALUES);
  return { made: await scene.phase(made, 'Synced'), copies: [copy, away] };
}

const removeLabel = async (of: Json): Promise<Json> =>
  await scene.tenantApi.patch(pathOf(of), { metadata: { labels: null } });

async function removeFinalizers(of: Json): Promise<void> {
  await scene.tenantApi.patch(pathOf(of), { metadata: { finalizers: null } });
}

describe('a labelled Secret', () => {
  const specimen = {
    type: 'kubernetes.io/tls',
    data: { 'tls.crt': '', 'tls.key': edited },
    metadata: {
      labels: { app: 'web', 'app.kubernetes.io/managed-by': 'Helm' },
      annotations: { note: 'x', 'keyferry.dev/origin': 'x/y/z' },
    },
  };
  const wanted = (syncSecret: Json): void => {
    const { data, stringData, type, metadata } = syncSecret;
    assert.deepEqual({ ...data, ...stringData }, specimen.data);
    assert.equal(type, specimen.type);
    assert.deepEqual(metadata.labels, {
      app: 'web',
      'kubelb.k8c.io/origin-name': 'offered',
      'kubelb.k8c.io/origin-ns': 'default',
      'kubelb.k8c.io/origin-namespace': 'default',
    });
    assert.equal(metadata.annotations['keyferry.dev/secret'], 'offered');
    assert.equal(metadata.annotations.note, undefined);
    assert.equal(metadata.annotations['keyferry.dev/origin'], undefined);
    assert.equal(metadata.ownerReferences, undefined);
  };
  it('a labelled Secret becomes a SyncSecret, and the CCM copies the SyncSecret', async () => {
    const { tenant } = await running();
    const offered = await secret('offered', specimen);
    const made = await synchronized('offered', wanted);
    await scene.phase(made, 'Synced');
    const [copy] = await scene.managementApi.list(`/api/v1/namespaces/${tenant.namespace}/secrets`);
    assert.deepEqual(copy.data, specimen.data);
    assert.equal(copy.type, specimen.type);
    assert.deepEqual((await findOffered('offered')).metadata.finalizers, offered.metadata.finalizers);
  });

  it('with run --controllers=syncsecret-synchronizer and without a CCM, a labelled Secret becomes a SyncSecret', async () => {
    await scene.endKept(['ccm']);
    await using operator = await Keyferry.start({
      command: 'run',
      kubeconfig: scene.clusters.ccmKubeconfig,
      args: ['--controllers=syncsecret-synchronizer'],
    });
    await operator.ready();
    await secret('offered', specimen);
    const made = await synchronized('offered', wanted);
    assert.equal(made.metadata.finalizers, undefined);
    assert.equal(made.status, undefined);
  });

  it('a SyncSecret follows its labelled Secret: the label, data, type, labels, immutable, and a new Secret with the same name', async () => {
    const { tenant } = await running();
    const offered = await secret('offered', { metadata: { labels: { app: 'web', tier: 'x' } } }, {});
    await scene.tenantApi.patch(pathOf(offered), { metadata: { labels: OFFERED } });
    const { made } = await arrived(tenant, 'offered');
    await scene.tenantApi.patch(pathOf(offered), {
      data: { a: edited, b: null },
      immutable: true,
      metadata: { labels: { app: 'other', tier: null } },
    });
    const changed = await synchronized('offered', ({ data, immutable, metadata: { labels } }) => {
      assert.deepEqual(data, { a: edited });
      assert.equal(immutable, true);
      assert.equal(labels.app, 'other');
      assert.equal(labels.tier, undefined);
    });
    assert.equal(changed.metadata.uid, made.metadata.uid);
    await scene.phase(made, 'Synced');
    await scene.tenantApi.delete(pathOf(offered));
    await secret('offered', { type: 'example.com/other' });
    const again = await synchronized('offered', ({ data, type, immutable }) => {
      assert.deepEqual(data, scene.data(VALUES));
      assert.equal(type, 'example.com/other');
      assert.equal(immutable, undefined);
    });
    const { secret: away } = await scene.arrived(tenant, again, VALUES);
    assert.equal(away.type, 'example.com/other');
    await scene.phase(again, 'Synced');
  });
});

describe('a Secret that is no longer offered has no SyncSecret', () => {
  const actions: Readonly<Record<string, (offered: Json) => Promise<unknown>>> = {
    unlabelled: removeLabel,
    deleted: async (offered) => await scene.tenantApi.delete(pathOf(offered)),
    'unlabelled-deleted': async (offered) => {
      await removeLabel(offered);
      await scene.tenantApi.delete(pathOf(offered));
    },
    // The label is removed while the deletion waits for a finalizer.
    held: async (offered) => {
      await scene.tenantApi.delete(pathOf(offered));
      await removeLabel(offered);
    },
    another: async (offered) =>
      await scene.tenantApi.patch(pathOf(offered), {
        metadata: { labels: { 'kubelb.k8c.io/managed-by': 'somebody' } },
      }),
  };
  for (const isRunning of rowsOf([true, false])) {
    it(`if a Secret is deleted or loses the label, its SyncSecret is deleted ${isRunning ? 'soon' : 'after the next start'}`, async () => {
      const { tenant, ccm } = await running();
      const names = Object.keys(actions);
      const offered = await Promise.all(
        names.map(async (name) => await secret(name, name === 'held' ? { metadata: { finalizers: [FOREIGN] } } : {})),
      );
      const chains = await Promise.all(names.map(async (name) => await arrived(tenant, name)));
      if (!isRunning) await ccm.kill9();
      await Promise.all(offered.map(async (one) => await actions[one.metadata.name]?.(one)));
      if (!isRunning) await running();
      await scene.gone(scene.tenantApi, ...chains.map(({ made }) => made));
      await scene.gone(scene.managementApi, ...chains.flatMap(({ copies }) => copies));
      for (const one of offered) {
        const { name } = one.metadata;
        const left = await findOffered(name);
        assert.equal(left === undefined, name.endsWith('deleted'), name);
        assert.deepEqual(left?.metadata.finalizers, name === 'held' ? [FOREIGN] : undefined);
        if (name === 'held') await removeFinalizers(one);
      }
    });
  }
});

describe('the finalizer of KubeLB', () => {
  const finalizers = [ORIGINAL_FINALIZER];
  /** Creates Secrets in the states in which KubeLB can leave them, each with its SyncSecret. */
  const specimens = async (): Promise<Record<string, Json>> => {
    const labelled = await secret('labelled', { metadata: { finalizers } });
    const deleted = await secret('deleted', { metadata: { finalizers } });
    const both = await secret('both', { metadata: { finalizers: [...finalizers, FOREIGN] } });
    const all = { labelled, deleted, both };
    for (const one of Object.values(all)) await originals(one);
    for (const one of [deleted, both]) await scene.tenantApi.delete(pathOf(one));
    return all;
  };
  /** Checks that only the Secret that is still offered has a SyncSecret, and none has KubeLB's finalizer. */
  const assertTidy = async ({ labelled, deleted, both }: Record<string, Json>): Promise<void> => {
    await waitFor(async () => (await findOffered('labelled')).metadata.finalizers === undefined);
    await waitFor(async () => (await findOffered('both')).metadata.finalizers.length === 1);
    await scene.gone(scene.tenantApi, deleted);
    await removeFinalizers(both);
    for (const name of ['deleted', 'both']) await waitFor(async () => (await find(name)) === undefined);
    assert.equal((await findOffered('labelled')).metadata.uid, labelled.metadata.uid);
  };

  it("Keyferry removes KubeLB's finalizer from Secrets, and adopts or deletes KubeLB's SyncSecrets of these Secrets", async () => {
    await scene.endKept(['ccm']);
    const all = await specimens();
    const before = await find('labelled');
    const { tenant } = await running();
    await assertTidy(all);
    const { made } = await arrived(tenant, 'labelled');
    assert.equal(made.metadata.uid, before.metadata.uid, 'adopted in place');
    assert.equal(made.metadata.annotations['keyferry.dev/secret'], 'labelled');
    await scene.tenantApi.delete(pathOf(all['labelled']));
    await scene.gone(scene.tenantApi, made);
  });

  longIt(
    "Keyferry removes KubeLB's finalizer from Secrets even if writes fail and the CCM is killed after each step",
    async () => {
      const { tenantProxy } = scene.clusters;
      await scene.endKept(['ccm']);
      const all = await specimens();
      const tenant = await scene.tenant();
      const fail = { match: { method: 'PATCH', path: '/secrets/' }, fault: kubernetesFault(500), times: 5 } as const;
      tenantProxy.rule(fail);
      tenantProxy.rule({ ...fail, fault: kubernetesFault(409) });
      for (let steps = 1; steps <= 4; steps += 1) {
        tenantProxy.reset();
        const ccm = await scene.ccm(tenant, { args: [ON] });
        const isWrite = ({ method, url }: { method: string; url: string }): boolean =>
          method !== 'GET' && url.includes('secrets/');
        await waitFor(() => tenantProxy.requests.filter(isWrite).length >= steps);
        await ccm.kill9();
      }
      await scene.ccm(tenant, { args: [ON] });
      await assertTidy(all);
    },
  );
});

describe('a SyncSecret of a user with the name of a labelled Secret', () => {
  it("if a user's SyncSecret has the name of a labelled Secret, it stays, with a Conflict; after its deletion, the Secret gets its own", async () => {
    const { tenant } = await running();
    const mine = await scene.create('default', 'mine', { mine: 'x' }, { metadata: { labels: { app: 'mine' } } });
    await scene.arrived(tenant, mine, { mine: 'x' });
    const settled = await scene.phase(mine, 'Synced');
    const offered = await secret('mine');
    await scene.event(offered, 'Conflict', /^SyncSecret "mine" already exists and is not managed by Keyferry/);
    await scene.change(scene.tenantApi, offered, { a: 'two' });
    await scene.change(scene.tenantApi, offered, VALUES);
    const isUntouched = async (): Promise<boolean> =>
      (await find('mine')).metadata.resourceVersion === settled.metadata.resourceVersion;
    await staysTrue(isUntouched, 1000, 'the SyncSecret of the user is not written');
    await scene.tenantApi.delete(pathOf(mine));
    await renewed(mine);
    const { made } = await arrived(tenant, 'mine');
    await scene.tenantApi.delete(pathOf(offered));
    await scene.gone(scene.tenantApi, made);
  });

  it("if a labelled Secret is deleted, a user's SyncSecret with the same name stays, and a clone of a SyncSecret stays, too", async () => {
    const { tenant } = await running();
    const mine = await scene.create('default', 'mine', { mine: 'x' });
    const offered = await secret('mine');
    await scene.event(offered, 'Conflict');
    await secret('other');
    const { made } = await arrived(tenant, 'other');
    const { labels, annotations } = made.metadata;
    const clone = await scene.create('default', 'clone', VALUES, { metadata: { labels, annotations } });
    const offeredToo = await secret('clone');
    await scene.event(offeredToo, 'Conflict', /was cloned from a copy/);
    for (const one of [offered, offeredToo]) await scene.tenantApi.delete(pathOf(one));
    await scene.gone(scene.tenantApi, offered, offeredToo);
    const stay = async (): Promise<boolean> => {
      const uids = [(await find('mine'))?.metadata.uid, (await find('clone'))?.metadata.uid];
      return uids[0] === mine.metadata.uid && uids[1] === clone.metadata.uid;
    };
    await staysTrue(stay, 1000, 'the SyncSecrets of the user exist');
  });
});

describe('a SyncSecret that another client changes', () => {
  const edits: Readonly<Record<string, object>> = {
    'a value': { data: { a: edited } },
    'a new key': { data: { c: edited } },
    'a removed key': { data: { a: null } },
    stringData: { stringData: { a: 'edited' } },
    'another type': { type: 'example.com/other' },
    immutable: { immutable: true },
    'a label': { metadata: { labels: { app: 'other' } } },
    'no labels': { metadata: { labels: null } },
    'another origin': { metadata: { labels: { 'kubelb.k8c.io/origin-name': 'other' } } },
    'no mark but the labels': { metadata: { annotations: null } },
    'no finalizer': { metadata: { finalizers: null } },
  };
  for (const isRunning of rowsOf([true, false])) {
    it(`if another client changes a labelled Secret's SyncSecret, the synchronizer restores it and its marks ${isRunning ? 'at once' : 'after the next start'}`, async () => {
      const { tenant, ccm } = await running();
      const cases = await Promise.all(
        Object.entries(edits).map(async ([title, edit], index) => {
          const name = `edited-${index}`;
          await secret(name, { metadata: { labels: { app: 'web' } } });
          const { made, copies } = await arrived(tenant, name);
          assert.deepEqual(made.metadata.finalizers, [FINALIZER]);
          return { title, edit, name, made, copies };
        }),
      );
      if (!isRunning) await ccm.kill9();
      for (const { edit, made } of cases) await scene.tenantApi.patch(pathOf(made), edit);
      if (!isRunning) await running();
      for (const { title, name, made, copies } of cases) {
        const now = await synchronized(name, (syncSecret) => {
          assert.deepEqual(essence(syncSecret), essence(made), title);
        });
        assert.equal(now.metadata.uid, made.metadata.uid);
        await scene.phase(now, 'Synced');
        const { copy } = await scene.arrived(tenant, now, VALUES);
        assert.equal(copy.metadata.uid, copies[0].metadata.uid, title);
      }
    });
  }

  longIt(
    "if another client deletes a labelled Secret's SyncSecret, it is made again, even while its copy cannot be deleted",
    async () => {
      const { tenant } = await running();
      const { link } = scene.clusters;
      await secret('deleted');
      const first = await arrived(tenant, 'deleted');
      await scene.tenantApi.delete(pathOf(first.made));
      const again = await renewed(first.made);
      await scene.gone(scene.managementApi, ...first.copies);
      const second = await arrived(tenant, 'deleted');
      const rule = link.rule({ match: { method: 'DELETE' }, fault: kubernetesFault(500) });
      await scene.tenantApi.delete(pathOf(again));
      await waitFor(() => rule.hits > 0, { message: 'the deletion of the copy to be tried' });
      rule.clear();
      await scene.gone(scene.managementApi, ...second.copies);
      await renewed(again);
      await arrived(tenant, 'deleted');
    },
  );
});

describe('the Secrets of a tenant', () => {
  /** The requests of the CCM for Secrets in the tenant's cluster, so far. */
  const requestsForSecrets = (): readonly { uri: string; name: string; verb: string }[] => {
    const { tenantPlane, ccmUser } = scene.clusters;
    return readAuditLog(tenantPlane, ccmUser).filter(({ resource }) => resource.startsWith('secrets'));
  };

  it('with the synchronizer, the CCM reads no Secrets without the label', async () => {
    // A new process, because the CCM may still ask for Secrets of an earlier test.
    await scene.endKept(['ccm']);
    const from = requestsForSecrets().length;
    const { tenant } = await running();
    const other = await secret('other', {}, {});
    await secret('labelled');
    const { made } = await arrived(tenant, 'labelled');
    await scene.change(scene.tenantApi, other, { a: 'two' });
    await scene.create('default', 'other', VALUES);
    await scene.tenantApi.delete(secretPath('default', 'labelled'));
    await scene.gone(scene.tenantApi, made);
    const requests = requestsForSecrets().slice(from);
    const others = requests.filter(
      ({ uri, name }) =>
        name !== 'labelled' && !/labelSelector=kubelb\.k8c\.io(%2F|\/)managed-by(%3D|=)kubelb/.test(uri),
    );
    assert.deepEqual(others, []);
  });
});

it('while its Secrets keep their data and labels, the synchronizer writes and reads nothing, even at a restart', async () => {
  const { tenant, ccm } = await running();
  const specimens: Readonly<Record<string, Json>> = {
    plain: {},
    'with-an-empty-value': { data: { ...scene.data(VALUES), empty: '' } },
    'without-data': { data: undefined },
    'with-a-type': { type: 'example.com/own' },
    immutable: { immutable: true },
    ['long-'.padEnd(253, 'n')]: {},
    'with-metadata': { metadata: { labels: { app: 'web' }, annotations: { note: 'x' }, finalizers: [FOREIGN] } },
  };
  const offered = await Promise.all(Object.entries(specimens).map(async ([name, more]) => await secret(name, more)));
  for (const { metadata } of offered) await scene.phase(await synchronized(metadata.name), 'Synced');
  // A repair leaves the name of the other client in `managedFields`. This name must not cause writes later.
  const plain = await find('plain');
  await scene.tenantApi.patch(syncSecretPath('default', 'plain'), { data: { a: edited } });
  const isRepaired = async (): Promise<boolean> =>
    (await find('plain')).metadata.generation > plain.metadata.generation + 1;
  await waitFor(isRepaired, { message: () => `the repair\n${scene.tail()}` });
  const requests = scene.requests(tenant);
  await requests.settled();
  await requests.assertNone(async () => {
    const other = await secret('unrelated', {}, {});
    await scene.change(scene.tenantApi, other, { a: 'two' });
    for (const one of offered) {
      const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': '{}' };
      await scene.tenantApi.patch(pathOf(one), { metadata: { annotations } });
    }
  });
  await requests.assertNone(async () => {
    await ccm.kill9();
    await running();
  });
  await secret('last');
  await arrived(tenant, 'last');
  await removeFinalizers(offered.find(({ metadata }) => metadata.name === 'with-metadata'));
});
