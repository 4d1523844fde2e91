/** The manifests in the documentation of k8s-replicator work without a change. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { staysTrue } from '../../support/wait-for.ts';
import { annotation, type KindScene, KINDS, ReplicatorScene, SETTLE_MS } from './support.ts';

const APP = 'team-a/my-app-admin';

let scene: ReplicatorScene;
let secrets: KindScene;
let maps: KindScene;
before(async () => {
  scene = await ReplicatorScene.open({ controllerManager: false });
  await scene.namespaces('team-a', 'jx', 'jx-one');
  await scene.operator();
  secrets = scene.of(KINDS[0]!);
  maps = scene.of(KINDS[1]!);
});
after(() => scene.close());

async function apply(name: string): Promise<void> {
  await scene.api.apply(readFileSync(new URL(`manifests/${name}.yaml`, import.meta.url), 'utf8'));
}

/** The values of a Secret, decoded as text. */
function texts({ data = {} }: Json): Record<string, string> {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(String(value), 'base64').toString()]),
  );
}

/** Waits until a Secret holds these values. */
async function shows(name: string, values: Readonly<Record<string, string>>): Promise<Json> {
  return await secrets.becomes(
    name,
    (object) => {
      const actual = texts(object);
      return (
        Object.keys(actual).length === Object.keys(values).length &&
        Object.entries(values).every(([key, text]) => actual[key] === text)
      );
    },
    `a Secret with ${Object.keys(values).join()}`,
  );
}

describe('replicate-from and replicate-to', () => {
  it("the ConfigMap manifests of k8s-replicator's page work: ConfigMaps are copied, also without data", async () => {
    await apply('from');
    await maps.becomes(
      'team-a/my-copy',
      (object) => annotation(object, 'replicated-from-version') !== undefined,
      'filled',
    );
    await apply('to');
    const copy = await maps.becomes('default/other-secret', () => true, 'there');
    assert.equal(annotation(copy, 'replicated-by'), 'team-a/my-source');
  });

  const database = { host: 'mydb.com', database: 'mydb', password: 'qwerty' };

  it("the database manifests of k8s-replicator's page copy credentials into an existing Secret and into a new one", async () => {
    await apply('local-database-credentials');
    await apply('source-database-credentials');
    await apply('database-credentials');
    await shows('team-a/local-database-credentials', database);
    const made = await shows('team-a/target-database-credentials', database);
    assert.equal(annotation(made, 'replicate-from'), 'default/database-credentials');
    assert.deepEqual(texts(await secrets.find('team-a/source-database-credentials')), {});
  });

  it("with the manifests of k8s-replicator's page, replicate-once keeps a password, and a certificate reaches each matching namespace", async () => {
    await apply('admin-password-source');
    const { data } = await secrets.becomes(
      'team-a/admin-password',
      (object) => object.data?.password !== undefined,
      'filled',
    );
    await secrets.change('team-a/admin-password-source', { password: 'another' });
    await staysTrue(
      async () => (await secrets.find('team-a/admin-password')).data.password === data.password,
      SETTLE_MS,
      'the password',
    );
    await apply('tls-example-com');
    await scene.namespaces('jx-late', 'jxx');
    for (const namespace of ['jx-one', 'jx-late']) {
      const { type } = await secrets.becomes(`${namespace}/tls-example-com`, () => true, 'there');
      assert.equal(type, 'kubernetes.io/tls');
    }
    assert.equal(await secrets.find('jxx/tls-example-com'), undefined);
  });

  it("with the manifests of k8s-replicator's page, a copy follows the chart's upgrades: random password, new version, fixed password, other source", async () => {
    const random = (letter: string): string => letter.repeat(64);
    await apply('app-random');
    const { metadata } = await shows(APP, { login: 'admin', password: random('R') });
    const version = await secrets.version(APP);
    await apply('app-random-upgrade');
    await staysTrue(async () => (await secrets.version(APP)) === version, SETTLE_MS, 'the copy after an upgrade');
    await apply('app-random-new-version');
    const renewed = await shows(APP, { login: 'root', password: random('T') });
    assert.equal(annotation(renewed, 'replicate-once-version'), 'v0:login=root');
    await apply('app-fixed-password');
    const fixed = await shows(APP, { login: 'admin', password: 'hunter2' });
    assert.deepEqual(
      [annotation(fixed, 'replicate-once'), annotation(fixed, 'replicate-once-version')],
      [undefined, undefined],
    );
    await apply('app-external-source');
    const external = await shows(APP, database);
    assert.equal(annotation(external, 'replicate-from'), 'default/database-credentials');
    await apply('app-random');
    const back = await shows(APP, { login: 'admin', password: random('R') });
    assert.equal(annotation(back, 'replicate-from'), undefined);
    assert.equal(back.metadata.uid, metadata.uid, 'it was the same object all the time');
  });
});
