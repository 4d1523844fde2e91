/**
 * If a copy cannot be changed in place, Keyferry deletes it and creates the new copy. Before that, a dry run asks
 * whether the server accepts the new copy.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { FaultProxy } from '../../servers/fault-proxy.ts';
import { describeRequest, type ProxyRequest } from '../../servers/fault-rules.ts';
import { proxied } from '../../servers/proxied.ts';
import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { rowsOf } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { HOME, MirrorScene, secretPath } from '../mirrors/support.ts';
import { type KindScene, KINDS, ReplicatorScene } from '../replicator/support.ts';
import { refuse } from './admission.ts';

const BASIC = 'kubernetes.io/basic-auth';
const OLD = { username: 'u', password: 'old' };
const NEW = { username: 'u', password: 'new' };

let scene: MirrorScene;
let proxy: FaultProxy;
let kubeconfig: string;
let operator: Keyferry;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  ({ proxy, kubeconfig } = await proxied(scene.plane));
  operator = await scene.operator({ kubeconfig });
});
afterEach(() => proxy.clearRules());
after(async () => {
  await scene.close();
  await proxy.stop();
});

/** Creates a mirror, and waits for its only copy: of type Opaque, in a namespace with the mirror's name. */
async function mirrored(name: string): Promise<Json> {
  await scene.namespaces(name);
  await scene.secret(HOME, name, OLD);
  await scene.mirror(name, [name]);
  const copy = await scene.copied(name, name, OLD);
  await scene.ready(name, 'Synced');
  return copy;
}

/** Deletes the source and creates it with another type and another value. */
async function retype(name: string): Promise<void> {
  await scene.api.delete(secretPath(HOME, name));
  await scene.secret(HOME, name, NEW, { type: BASIC });
}

async function replaced(name: string, old: Json, timeoutMs = 70_000): Promise<void> {
  const copy = await scene.copied(name, name, NEW, timeoutMs);
  assert.notEqual(copy.metadata.uid, old.metadata.uid);
  await scene.ready(name, 'Synced');
}

const withType = (name: string): string => `request.namespace == '${name}' && object.?type.orValue('') == '${BASIC}'`;
const isCreation =
  (namespace: string) =>
  ({ method, query, path }: ProxyRequest): boolean =>
    method === 'POST' && !query.has('dryRun') && path === `/api/v1/namespaces/${namespace}/secrets`;
/** The requests for Secrets of a namespace that the API server got. */
const requestsIn = (namespace: string): ProxyRequest[] =>
  proxy.requests
    .map(({ method, url }) => describeRequest(method, url))
    .filter(({ path }) => path.startsWith(`/api/v1/namespaces/${namespace}/secrets`));

describe('a copy whose source has changed its type', () => {
  it('if a source gets another type but a policy refuses the new copy, the old copy stays unchanged, and the mirror reports the reason', async () => {
    const old = await mirrored('asked');
    {
      await using _ = await refuse(scene.api, 'asked', { when: withType('asked'), operations: ['CREATE'] });
      await retype('asked');
      await scene.ready('asked', 'SyncError', /namespace asked.*refused by asked/);
      assert.deepEqual(await scene.find('asked', 'asked'), old);
    }
    await replaced('asked', old);
  });

  it('if a source gets another type but a quota has no room for the new copy, the old copy stays unchanged', async () => {
    const old = await mirrored('quota');
    const quota = { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'few', namespace: 'quota' } };
    const few = { hard: { secrets: '1' } };
    await scene.api.create({ ...quota, spec: few });
    const path = '/api/v1/namespaces/quota/resourcequotas/few';
    // The test writes the quota's status itself, and does not wait for the controller manager.
    await scene.api.patch(`${path}/status`, { status: { ...few, used: few.hard } });
    const another = { metadata: { name: 'another', namespace: 'quota' } };
    const isFull = async (): Promise<boolean> => {
      const call = { query: { dryRun: 'All' }, body: another };
      return (await scene.api.raw('POST', '/api/v1/namespaces/quota/secrets', call)).status === 403;
    };
    await waitFor(isFull, { message: 'the quota to be in force' });
    await retype('quota');
    await scene.ready('quota', 'SyncError', /exceeded quota/);
    assert.deepEqual(await scene.find('quota', 'quota'), old);
    await scene.api.delete(path);
    await replaced('quota', old);
  });

  it('if a source gets another type, Keyferry sends no request between the deletion of the old copy and the creation of the new one', async () => {
    const old = await mirrored('silent');
    // From now on the watch of copies receives nothing. So the operator cannot wait for an event of the watch.
    const copies = (request: ProxyRequest): boolean => request.isWatch && request.query.has('labelSelector');
    assert.ok(proxy.stallAll(copies) > 0, 'the watch of copies');
    await retype('silent');
    await replaced('silent', old, 10_000);
    const asked = requestsIn('silent');
    const deletion = asked.findIndex(({ method }) => method === 'DELETE');
    assert.equal(asked[deletion + 1]?.method, 'POST');
    proxy.cutAll(copies);
  });

  it('after a kill -9 between the deletion of an old copy and the creation of the new one, the next start creates the new copy', async () => {
    await mirrored('killed');
    proxy.rule({ match: isCreation('killed'), fault: { kind: 'stall' } });
    await retype('killed');
    await scene.gone(secretPath('killed', 'killed'));
    await operator.kill9();
    proxy.clearRules();
    {
      await using _ = await refuse(scene.api, 'killed', { when: withType('killed'), operations: ['CREATE'] });
      operator = await scene.operator({ kubeconfig });
      await scene.ready('killed', 'SyncError', /refused by killed/);
    }
    await scene.copied('killed', 'killed', NEW, 70_000);
  });
});

describe('an immutable copy', () => {
  it('if a policy refuses the new copy, an immutable copy stays until the policy is gone', async () => {
    const { metadata } = await mirrored('ice');
    await scene.api.patch(secretPath('ice', 'ice'), { immutable: true });
    const when = `request.namespace == 'ice' && 'b' in object.?data.orValue({})`;
    {
      await using _ = await refuse(scene.api, 'ice', { when, operations: ['CREATE'] });
      await scene.change(HOME, 'ice', { b: '1' });
      await scene.ready('ice', 'SyncError', /refused by ice$/);
      assert.equal((await scene.find('ice', 'ice')).metadata.uid, metadata.uid);
    }
    await scene.copied('ice', 'ice', { b: '1' }, 70_000);
  });
});

for (const kind of rowsOf(KINDS)) {
  describe(`a pushed ${kind.kind} that is immutable`, () => {
    let replication: ReplicatorScene;
    let users: KindScene;
    before(async () => {
      replication = await ReplicatorScene.open({ controllerManager: false });
      await replication.namespaces('source', 'team-a');
      users = replication.of(kind);
      await replication.operator();
    });
    after(() => replication.close());

    it(`if a policy refuses the new copy, an immutable pushed ${kind.kind} stays unchanged`, async () => {
      await users.create('source/ice', { a: '1' }, { 'replicate-to': 'team-a/ice' });
      await users.holds('team-a/ice', { a: '1' });
      await replication.api.patch(users.path('team-a/ice'), { immutable: true });
      const { uid } = (await users.find('team-a/ice')).metadata;
      {
        const resource = `${kind.kind.toLowerCase()}s`;
        const when = `request.namespace == 'team-a'`;
        await using _ = await refuse(replication.api, 'ice', { resource, when, operations: ['CREATE'] });
        await users.change('source/ice', { a: '2' });
        await users.warning('source/ice', 'Refused');
        assert.equal((await users.find('team-a/ice')).metadata.uid, uid);
        await users.holds('team-a/ice', { a: '1' });
      }
      const copy = await waitFor(
        async () => {
          const now = await users.find('team-a/ice');
          return now?.metadata.uid !== uid && now;
        },
        { timeoutMs: 70_000, message: 'the copy to be replaced' },
      );
      assert.equal(copy.immutable, undefined);
      await users.holds('team-a/ice', { a: '2' });
    });
  });
}
