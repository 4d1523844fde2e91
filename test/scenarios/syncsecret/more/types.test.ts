/** Tests the type and the field `immutable` of SyncSecrets and their Secrets. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import type { Tenant } from '../../../support/sync-secret-clusters.ts';
import { waitFor } from '../../../support/wait-for.ts';
import type { Chain } from '../support.ts';
import { ALL_TRAVEL, syncSecretPath, SyncSecretScene } from '../support.ts';

let scene: SyncSecretScene;
let tenant: Tenant;
before(async () => {
  scene = await SyncSecretScene.open();
  ({ tenant } = await scene.running(ALL_TRAVEL));
});
after(async () => await scene.close());

/** A text as base64, without the canary: the API server checks the values of some types. */
const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Waits until copy and Secret have this type and exactly these values. */
async function arrived(object: Json, type: string, data: Json): Promise<Chain> {
  let seen: Json;
  return await waitFor(
    async () => {
      const copy = await scene.findCopy(tenant, object);
      const secret = await scene.findSecret(copy);
      seen = { copy: copy.status, type: secret.type };
      assert.equal(secret.type, type);
      assert.deepEqual(secret.data ?? {}, data);
      return { copy, secret };
    },
    { message: () => `a Secret of type ${type}; seen ${JSON.stringify(seen)}\n${scene.tail()}` },
  );
}

describe('the type of a SyncSecret', () => {
  const types: Record<string, () => Json> = {
    Opaque: () => scene.data({ key: 'x' }),
    'kubernetes.io/tls': () => scene.data({ 'tls.crt': 'certificate', 'tls.key': 'key' }),
    'kubernetes.io/dockercfg': () => ({ '.dockercfg': base64('{"registry.example.com":{"auth":"eDp5"}}') }),
    'kubernetes.io/dockerconfigjson': () => ({ '.dockerconfigjson': base64('{"auths":{}}') }),
    'kubernetes.io/basic-auth': () => scene.data({ username: 'x', password: 'y' }),
    'kubernetes.io/ssh-auth': () => scene.data({ 'ssh-privatekey': 'x' }),
    'example.com/own': () => scene.data({ key: 'x' }),
  };

  for (const [type, values] of Object.entries(types)) {
    it(`copy and Secret of a SyncSecret of type ${type} have the same type`, async () => {
      const name = type.replaceAll(/[^a-z]+/gi, '-').toLowerCase();
      const data = values();
      const object = await scene.create('default', name, {}, { data, type });
      const { copy } = await arrived(object, type, data);
      assert.equal(copy.type, type);
      await scene.phase(object, 'Synced', { message: /^Secret synced successfully$/ });
    });
  }

  it('if the type of a SyncSecret changes, the SyncSecret gets a new Secret with the same name', async () => {
    const tls = scene.data({ 'tls.crt': 'certificate', 'tls.key': 'key' });
    const object = await scene.create('default', 'changed', {}, { data: tls });
    const path = syncSecretPath('default', 'changed');
    const first = await arrived(object, 'Opaque', tls);
    await scene.tenantApi.patch(path, { type: 'kubernetes.io/tls' });
    const second = await arrived(object, 'kubernetes.io/tls', tls);
    await scene.phase(object, 'Synced');
    // The type changes together with the data, and is then removed.
    await scene.tenantApi.patch(
      path,
      [
        { op: 'remove', path: '/type' },
        { op: 'replace', path: '/data', value: scene.data({ key: 'x' }) },
      ],
      'json',
    );
    const third = await arrived(object, 'Opaque', scene.data({ key: 'x' }));
    await scene.phase(object, 'Synced');
    for (const { copy, secret } of [second, third]) {
      assert.equal(copy.metadata.uid, first.copy.metadata.uid);
      assert.equal(secret.metadata.name, first.secret.metadata.name);
    }
    assert.equal(new Set([first, second, third].map(({ secret }) => secret.metadata.uid)).size, 3);
  });
});

describe('an immutable SyncSecret', () => {
  const isImmutable = async (
    object: Json,
    expected: true | undefined,
    values: Record<string, string>,
  ): Promise<Chain> =>
    await waitFor(
      async () => {
        const chain = await scene.arrived(tenant, object, values);
        assert.deepEqual([chain.copy.immutable, chain.secret.immutable], [expected, expected]);
        return chain;
      },
      { message: () => `immutable to be ${expected}\n${scene.tail()}` },
    );
  const failed = { reason: 'SyncFailed', message: /immutable/ };

  it('an immutable SyncSecret has an immutable copy and Secret; after a change of values it is Failed until it is mutable', async () => {
    const object = await scene.create('default', 'fixed', { a: 'one' }, { immutable: true });
    const path = syncSecretPath('default', 'fixed');
    const { secret } = await isImmutable(object, true, { a: 'one' });
    await scene.phase(object, 'Synced');
    await scene.change(scene.tenantApi, object, { a: 'two' });
    const { metadata } = await scene.phase(object, 'Failed', failed);
    assert.equal(metadata.generation, 2);
    const copy = await scene.findCopy(tenant, object);
    await scene.phase(copy, 'Failed', { ...failed, api: scene.managementApi });
    const unchanged = await scene.findSecret(copy);
    assert.equal(unchanged.metadata.resourceVersion, secret.metadata.resourceVersion);
    // The SyncSecret gets the values of its Secret back.
    await scene.change(scene.tenantApi, object, { a: 'one' });
    await scene.phase(object, 'Synced');
    await scene.change(scene.tenantApi, object, { a: 'three' });
    await scene.phase(object, 'Failed', failed);
    await scene.tenantApi.patch(path, { immutable: false });
    const replaced = await isImmutable(object, undefined, { a: 'three' });
    assert.equal(replaced.secret.metadata.name, secret.metadata.name);
    assert.notEqual(replaced.secret.metadata.uid, secret.metadata.uid);
    await scene.phase(object, 'Synced');
  });

  it('a SyncSecret can become immutable together with new values, and mutable again with the same values', async () => {
    const object = await scene.create('default', 'later', { a: 'one' });
    const path = syncSecretPath('default', 'later');
    const { secret } = await isImmutable(object, undefined, { a: 'one' });
    await scene.tenantApi.patch(path, { immutable: true, data: scene.data({ a: 'two' }) });
    const fixed = await isImmutable(object, true, { a: 'two' });
    assert.equal(fixed.secret.metadata.uid, secret.metadata.uid, 'changed in place');
    await scene.tenantApi.patch(path, [{ op: 'remove', path: '/immutable' }], 'json');
    const loose = await isImmutable(object, undefined, { a: 'two' });
    assert.notEqual(loose.secret.metadata.uid, secret.metadata.uid, 'replaced');
    await scene.phase(object, 'Synced');
  });

  it('an immutable SyncSecret can change its labels, but not its type', async () => {
    const object = await scene.create('default', 'labelled', { a: 'one' }, { immutable: true });
    const path = syncSecretPath('default', 'labelled');
    const { copy, secret } = await isImmutable(object, true, { a: 'one' });
    await scene.tenantApi.patch(path, { metadata: { labels: { app: 'web' } } });
    await waitFor(async () => (await scene.findSecret(copy)).metadata.labels.app === 'web', { message: 'the label' });
    await scene.tenantApi.patch(path, { type: 'example.com/other' });
    await scene.phase(object, 'Failed', failed);
    const { secret: kept } = await isImmutable(object, true, { a: 'one' });
    assert.equal(kept.metadata.uid, secret.metadata.uid);
  });
});
