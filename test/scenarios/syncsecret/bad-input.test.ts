/**
 * Tests mistakes in SyncSecrets and refusals of the management cluster: each is reported, and all other SyncSecrets are
 * copied.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import { longIt, rowsOf } from '../../support/long.ts';
import type { Tenant } from '../../support/sync-secret-clusters.ts';
import { syncSecretPath, SyncSecretScene } from './support.ts';
import { startWebhook } from './webhook.ts';

let scene: SyncSecretScene;
before(async () => (scene = await SyncSecretScene.open()));
afterEach(async () => await scene.clear());
after(async () => await scene.close());

const DEBUG = { args: ['--log-level=debug'] };
const MIB = 1024 * 1024;

/** Checks that a new SyncSecret of the tenant is copied. */
async function othersGoOn(tenant: Tenant, name: string): Promise<void> {
  const other = await scene.create('default', name, { a: 'one' });
  await scene.arrived(tenant, other, { a: 'one' });
  await scene.phase(other, 'Synced');
}

describe('values and keys of a SyncSecret', () => {
  it('a SyncSecret without values becomes an empty Secret', async () => {
    const { tenant } = await scene.kept(DEBUG);
    for (const [name, data] of Object.entries({ none: undefined, null: null, empty: {} })) {
      const object = await scene.create('default', name, {}, { data });
      const { secret } = await scene.arrived(tenant, object, {});
      assert.equal(secret.type, 'Opaque');
      await scene.phase(object, 'Synced');
    }
  });

  longIt(
    'a SyncSecret with keys that a Secret accepts becomes a Secret; with another key it is Failed, and its message names this key',
    async () => {
      const { tenant } = await scene.kept(DEBUG);
      const usable = ['__proto__', 'constructor', 'a.b-c_D', 'x'.repeat(253)];
      const values = Object.fromEntries(usable.map((key) => [key, key.slice(0, 20)]));
      const good = await scene.create('default', 'good', values);
      await scene.arrived(tenant, good, values);
      await scene.phase(good, 'Synced');
      const unusable = {
        'line-break': 'a\nb',
        comma: 'a,b',
        slash: 'a/b',
        blank: 'a b',
        pointer: '~1',
        dots: '..',
        long: 'x'.repeat(300),
        letters: 'schlüssel',
      };
      for (const [name, key] of Object.entries(unusable)) {
        const object = await scene.create('default', name, { [key]: 'one', good: 'two' });
        const seen = await scene.phase(object, 'Failed', { reason: 'SyncFailed', message: /is invalid: data\[/ });
        const { message } = seen.status.conditions[0];
        // In its message, the API server cuts long keys and escapes some characters.
        assert.ok(message.includes(key.slice(0, 100).split('\n', 1).join('')), message);
        const copy = await scene.findCopy(tenant, object);
        assert.deepEqual(copy.data, scene.data({ [key]: 'one', good: 'two' }));
        assert.equal(await scene.findSecret(copy), undefined);
      }
      // Here the invalid key is in stringData, and the user then corrects it.
      const object = await scene.create('default', 'texts', {}, { data: {}, stringData: { 'a/b': scene.canary } });
      await scene.phase(object, 'Failed', { message: /data\[a\/b\]/ });
      const repair = { stringData: { 'a/b': null }, data: scene.data({ ab: 'one' }) };
      await scene.tenantApi.patch(syncSecretPath('default', 'texts'), repair);
      await scene.arrived(tenant, object, { ab: 'one' });
      await scene.phase(object, 'Synced');
    },
  );

  longIt(
    'a SyncSecret of 1 MiB becomes a Secret; a larger SyncSecret is Failed, and its message names the cluster that refuses it',
    async () => {
      const { tenant } = await scene.kept(DEBUG);
      const filler = (bytes: number): string => 'x'.repeat(bytes - Buffer.byteLength(scene.canary));
      const full = await scene.create('default', 'full', { a: filler(MIB) });
      await scene.arrived(tenant, full, { a: filler(MIB) });
      await scene.phase(full, 'Synced');
      const changed = { a: filler(MIB / 2), b: filler(MIB / 2) };
      await scene.change(scene.tenantApi, full, changed);
      await scene.arrived(tenant, full, changed);
      // The copy is small enough, but the Secret is too large.
      const more = await scene.create(
        'default',
        'more',
        {},
        { data: {}, stringData: { a: scene.canary + filler(MIB + 1) } },
      );
      await scene.phase(more, 'Failed', { reason: 'SyncFailed', message: /data: Too long|too large/ });
      // The copy is too large: stringData needs less room in the SyncSecret than base64 in the copy.
      const stringData = { a: scene.canary + filler(1.4 * MIB) };
      const most = await scene.create('default', 'most', {}, { data: {}, stringData });
      await scene.phase(most, 'Failed', { message: /it is too large for the cluster$/ });
      assert.equal(await scene.findCopy(tenant, most), undefined);
      // The tenant's own cluster refuses this SyncSecret.
      await assert.rejects(scene.create('default', 'too-much', { a: filler(1.5 * MIB) }), /too large|larger than max/);
      await othersGoOn(tenant, 'after-large');
      await scene.tenantApi.patch(syncSecretPath('default', 'most'), {
        data: scene.data({ a: 'one' }),
        stringData: null,
      });
      await scene.arrived(tenant, most, { a: 'one' });
      await scene.phase(most, 'Synced');
    },
  );
});

describe('a refusal in the management cluster that quotes the values', () => {
  const denials = [
    { code: 409, reason: 'Conflict' },
    { code: 404, reason: 'NotFound' },
    { code: 429, reason: 'TooManyRequests' },
    { code: 400, reason: 'Immutable' },
  ];
  const resources = { 'the copy': ['kubelb.k8c.io', 'syncsecrets'], 'the Secret': ['', 'secrets'] } as const;

  for (const [title, [group, resource]] of rowsOf(Object.entries(resources))) {
    it(`if a webhook refuses ${title}, with any status code, the SyncSecret becomes Failed, its message does not quote the webhook, and the write is tried again`, async () => {
      const { tenant } = await scene.kept(DEBUG);
      const object = await scene.create('default', 'refused', { a: 'one' });
      await scene.arrived(tenant, object, { a: 'one' });
      await scene.phase(object, 'Synced');
      const { namespace } = tenant;
      const name = `hidden-${resource}`;
      {
        await using webhook = await startWebhook(scene.managementApi, name, { group, resource, namespace });
        for (const [index, denial] of denials.entries()) {
          webhook.deny(denial);
          await scene.change(scene.tenantApi, object, { a: `value ${index}` });
          const made = await scene.create('default', `refused-${index}`, { a: 'new' });
          const message = /an admission policy or webhook refused it$/;
          for (const { status } of await Promise.all(
            [object, made].map(async (one) => await scene.phase(one, 'Failed', { message })),
          )) {
            assert.doesNotMatch(JSON.stringify(status), /not this|hidden/);
          }
        }
        assert.ok(webhook.refused < 1000, `${webhook.refused} tries`);
        const events = JSON.stringify(await scene.tenantApi.list('/api/v1/events'));
        assert.doesNotMatch(events, /not this|hidden/);
        // Another namespace is not affected.
        const other = await scene.create('default', `free-${resource}`, { a: 'one' }, {}, scene.managementApi);
        await scene.made(other, { a: 'one' });
      }
      // A change by the user is tried at once, without the pause after the refusals.
      await scene.change(scene.tenantApi, object, { a: 'accepted' });
      await scene.arrived(tenant, object, { a: 'accepted' });
      await scene.phase(object, 'Synced');
    });
  }
});
