/**
 * Tests that each property gets one value only, even if requests fail or the generator is killed. A fault proxy stands
 * before Vault, and another before the API server. The test plays External Secrets Operator (ESO), because the real ESO
 * reads again by itself: then the test could not see that Keyferry's request to read again is missing.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import { readCrd } from '../../../scripts/crd/read-crds.ts';
import { type FaultProxy, startFaultProxy } from '../../servers/fault-proxy.ts';
import { describeRequest, type ProxyRequest } from '../../servers/fault-rules.ts';
import { proxied } from '../../servers/proxied.ts';
import type { Json } from '../../support/api.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { GeneratorScene, HOME, RESULT } from './support.ts';

/** Time limit for a value after Vault answers again, ms. */
const RECOVERY_MS = 20_000;
const STORE = 'proxied';
const WRITE = { method: ['POST', 'PUT'], path: '/v1/secret/data/' };
const TOUCH = { method: 'PATCH', path: '/externalsecrets/' };

let scene: GeneratorScene;
let vaultProxy: FaultProxy;
let apiProxy: FaultProxy;
let kubeconfig: string;

before(async () => {
  scene = await GeneratorScene.open({ eso: false });
  await scene.api.apply(readCrd('secretmirrors'));
  vaultProxy = await startFaultProxy({ upstream: scene.vault.addr });
  ({ proxy: apiProxy, kubeconfig } = await proxied(scene.plane));
  await scene.store(STORE, { server: vaultProxy.url });
});
after(async () => {
  await scene?.close();
  await vaultProxy?.stop();
  await apiProxy?.stop();
});
afterEach(() => {
  vaultProxy.clearRules();
  apiProxy.clearRules();
});

async function failing(name: string, options: Json = {}): Promise<void> {
  await scene.externalSecret(name, [{ key: `app/${name}`, property: 'a' }], { store: STORE, ...options });
  await scene.fail(name);
}

/** Waits for the entry, and checks that the entry has only one version. @returns the value in the entry */
async function made(name: string): Promise<string> {
  const { data, metadata } = await waitFor(async () => await scene.entry(`secret/data/app/${name}`), {
    message: () => `the entry of ${name}\n${scene.tail()}`,
  });
  assert.equal(metadata.version, 1);
  return data.a;
}

/** Waits for the annotation that makes ESO read again, and checks that it names the version in Vault. */
async function touched(name: string, reason: 'Success' | 'Exists'): Promise<void> {
  const { entries } = await scene.says(name, reason);
  const { metadata } = await scene.entry(`secret/data/app/${name}`);
  assert.deepEqual(entries, { [`secret/data/app/${name}`]: `1 ${metadata.created_time}` });
}

describe('a generator that is killed', () => {
  for (const [point, arm, reason] of [
    ['before the write reaches Vault', () => vaultProxy.rule({ match: WRITE, fault: { kind: 'stall' } }), 'Success'],
    ['after the write', () => vaultProxy.rule({ match: WRITE, fault: { kind: 'lose-answer' } }), 'Exists'],
    ['before the annotation is written', () => apiProxy.rule({ match: TOUCH, fault: { kind: 'stall' } }), 'Exists'],
    [
      'after the annotation is written',
      () => apiProxy.rule({ match: TOUCH, fault: { kind: 'lose-answer' } }),
      'Success',
    ],
  ] as const) {
    it(`if the generator is killed ${point}, it makes no second value after its next start, and then makes ESO read the value`, async () => {
      const name = point.replaceAll(' ', '-').toLowerCase();
      const operator = await scene.start({ kubeconfig });
      const rule = arm();
      await failing(name);
      await waitFor(() => rule.hits > 0, { message: () => `the request ${point}\n${scene.tail()}` });
      await operator.kill9();
      rule.clear();
      const next = await scene.start({ kubeconfig });
      await made(name);
      await touched(name, reason);
      await scene.fail(name, HOME, true);
      await next.stop();
    });
  }
});

it('no ExternalSecret is read before the stores are listed, because its store would seem to be missing; other controllers do not wait', async () => {
  const listed = Promise.withResolvers<void>();
  const lists = ({ path, query }: ProxyRequest, plural: string): boolean =>
    path.endsWith(`/${plural}`) && query.get('limit') !== '1';
  apiProxy.rule({ match: (one) => lists(one, 'secretstores'), fault: { kind: 'hold', until: listed.promise } });
  apiProxy.reset();
  await failing('unlisted');
  const args = ['--controllers=replicator,generator'];
  const operator = await scene.launch({ kubeconfig, command: 'run', args });
  try {
    await waitFor(() => operator.output.includes('controllers started'), { message: () => operator.output });
    await waitFor(() => apiProxy.live((one) => lists(one, 'secretstores')).length > 0, { message: 'the list' });
    const isWaiting = (): boolean =>
      !apiProxy.requests.some(({ url }) => lists(describeRequest('GET', url), 'externalsecrets'));
    await staysTrue(isWaiting, 300, 'no list of ExternalSecrets');
    assert.equal(await operator.isReady(), false);
    listed.resolve();
    await touched('unlisted', 'Success');
    assert.doesNotMatch(operator.output, /StoreNotFound/);
  } finally {
    listed.resolve();
    await operator.kill9();
  }
});

describe('a running generator', () => {
  before(
    async () => void (await scene.start({ kubeconfig, command: 'run', args: ['--controllers=mirrors,generator'] })),
  );
  after(async () => void (await scene.operator.stop()));

  it('if the write of a value gets no answer, the next try finds the value and makes no second value', async () => {
    const rule = vaultProxy.rule({ match: WRITE, fault: { kind: 'lose-answer' }, times: 1 });
    await failing('lost');
    await made('lost');
    await touched('lost', 'Exists');
    assert.equal(rule.hits, 1);
  });

  it('if the API server refuses the result of an ExternalSecret with 409, the next try writes the result Success', async () => {
    const conflict = {
      kind: 'Status',
      apiVersion: 'v1',
      status: 'Failure',
      reason: 'Conflict',
      message: 'changed',
      code: 409,
    };
    apiProxy.rule({ match: TOUCH, fault: { kind: 'respond', status: 409, body: conflict }, times: 1 });
    await failing('refused');
    await touched('refused', 'Success');
    await made('refused');
  });

  it('if another client writes the value first, the generator keeps this value and reports Exists', async () => {
    let release = (): void => undefined;
    const until = new Promise<void>((resolve) => (release = resolve));
    const rule = vaultProxy.rule({ match: WRITE, fault: { kind: 'hold', until }, times: 1 });
    await failing('race');
    await waitFor(() => rule.hits === 1, { message: 'the write to be held' });
    await scene.vault.request('POST', 'secret/data/app/race', { data: { a: 'by hand' } });
    release();
    await touched('race', 'Exists');
    assert.equal(await made('race'), 'by hand');
  });

  it('when Vault answers again, failed ExternalSecrets get values within 20 s, and each has one error event for the whole outage', async () => {
    await vaultProxy.refuse();
    const names = ['down-0', 'down-1', 'down-2'];
    for (const name of names) await failing(name);
    await scene.externalSecret('beside', [{ key: 'app/beside', property: 'a' }]);
    await scene.fail('beside');
    await scene.says('beside', 'Success');
    for (const name of names)
      await scene.says(name, 'ErrorCreating', /refused the connection|did not answer|ECONNREFUSED/);
    await vaultProxy.accept();
    await within(RECOVERY_MS, 'the values after the outage', async () => {
      await Promise.all(names.map(async (name) => await scene.says(name, 'Success')));
    });
    for (const name of names) {
      await made(name);
      const reasons = (await scene.events(name)).map(({ reason }): string => reason);
      assert.deepEqual(reasons.toSorted(), ['ErrorCreating', 'Success'], name);
    }
  });

  it('while one Vault answers 429, ExternalSecrets of other Vaults get their values; the first Vault gets its values later', async () => {
    const busy = { kind: 'respond', status: 429, headers: { 'retry-after': '3' }, body: { errors: ['busy'] } } as const;
    const rule = vaultProxy.rule({ match: { path: '/v1/secret/' }, fault: busy });
    await failing('busy');
    await scene.says('busy', 'ErrorCreating');
    await scene.externalSecret('not-busy', [{ key: 'app/not-busy', property: 'a' }]);
    await scene.fail('not-busy');
    await scene.says('not-busy', 'Success');
    rule.clear();
    await within(RECOVERY_MS, 'the value after the 429', async () => await scene.says('busy', 'Success'));
    await made('busy');
  });

  it('an ExternalSecret gets its value within 20 s after its revoked token is replaced, or after its Vault policy is extended', async () => {
    const policy = 'path "secret/data/app/*" { capabilities = ["create", "read", "update"] }';
    const old = await scene.limitedToken('replaced', policy);
    await scene.token(HOME, old, 'replaced');
    await scene.store('replaced', { auth: { tokenSecretRef: { name: 'replaced', key: 'vault-token' } } });
    await scene.vault.request('POST', 'auth/token/revoke', { token: old });
    await failing('revoked', { store: 'replaced' });
    await scene.says('revoked', 'ErrorCreating', /permission denied|invalid token|not valid/);
    await scene.token(HOME, await scene.limitedToken('replaced', policy), 'replaced');
    await within(RECOVERY_MS, 'the value with the new token', async () => await scene.says('revoked', 'Success'));
    await scene.vault.request('PUT', 'sys/policies/acl/replaced', {
      policy: 'path "secret/data/none" { capabilities = ["read"] }',
    });
    await failing('granted', { store: 'replaced' });
    await scene.says('granted', 'ErrorCreating');
    await scene.vault.request('PUT', 'sys/policies/acl/replaced', { policy });
    await within(RECOVERY_MS, 'the value with the granted policy', async () => await scene.says('granted', 'Success'));
  });

  it('an ExternalSecret gets its value even if it is deleted and created again several times while it fails', async () => {
    for (let round = 0; round < 5; round++) {
      await failing('again');
      await scene.api.delete(scene.path('again'));
    }
    await failing('again');
    await waitFor(async () => (await scene.result('again')) !== undefined, { message: () => scene.tail() });
    await made('again');
  });

  it('if a SecretMirror writes a Vault entry, the generator writes nothing into the entry and reports Conflict', async () => {
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'mirrored', namespace: HOME } };
    await scene.api.create({ ...secret, data: { b: Buffer.from('b').toString('base64') } });
    await scene.api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name: 'to-vault', namespace: HOME },
      spec: {
        source: { name: 'mirrored' },
        destination: {
          type: 'vault',
          vault: {
            addr: vaultProxy.url,
            path: '/secret/data/app/mirrored',
            auth: { token: { secretRef: { name: 'vault-token' }, tokenKey: 'vault-token' } },
          },
        },
      },
    });
    await waitFor(async () => (await scene.entry('secret/data/app/mirrored')) !== undefined, {
      message: () => `the mirror to write\n${scene.tail()}`,
    });
    await failing('mirrored');
    const { message } = await scene.says('mirrored', 'Conflict');
    assert.match(message, /spec\.data\[0\]: SecretMirror default\/to-vault writes this entry/);
    assert.deepEqual((await scene.entry('secret/data/app/mirrored')).data, { b: 'b' });
    // This ExternalSecret's key names the entry without `data/`, and the mirror's path with `data/`. The generator must
    // recognize that both mean the same entry.
    await scene.operator.stop();
    await scene.start({
      kubeconfig,
      command: 'run',
      args: ['--controllers=mirrors,generator', '--generator-credentials=environment'],
      env: { VAULT_ADDR: vaultProxy.url, VAULT_TOKEN: scene.vault.rootToken },
    });
    await scene.externalSecret('mirrored-too', [{ key: 'secret/app/mirrored', property: 'a' }], { store: STORE });
    await scene.fail('mirrored-too');
    await scene.says('mirrored-too', 'Conflict');
    assert.deepEqual((await scene.entry('secret/data/app/mirrored')).data, { b: 'b' });
  });
});

it('of two replicas, the leader writes the value; after it is killed, the other replica finds the value and makes no second value', async () => {
  const args = [
    '--leader-elect',
    '--leader-elect-lease-duration=3s',
    '--leader-elect-renew-deadline=2s',
    '--leader-elect-retry-period=500ms',
  ];
  const first = await scene.start({ kubeconfig, args });
  const second = await scene.start({ kubeconfig, args });
  const rule = apiProxy.rule({ match: TOUCH, fault: { kind: 'stall' } });
  await failing('replicas');
  await waitFor(() => rule.hits > 0, { message: () => scene.tail() });
  const leader = (await first.metric('keyferry_leader')) === 1 ? first : second;
  await leader.kill9();
  rule.clear();
  await touched('replicas', 'Exists');
  await made('replicas');
  const { metadata } = await scene.api.get(scene.path('replicas'));
  assert.ok(metadata.annotations[RESULT] !== undefined);
});
