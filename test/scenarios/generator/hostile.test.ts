/**
 * Tests attacks by authors of ExternalSecrets and stores. The server that a hostile store names is a listener of the
 * test, which records the requests.
 */
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, it } from 'node:test';
import { promisify } from 'node:util';

import type { Json } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { GeneratorScene, HOME } from './support.ts';

const OTHER = 'other';
const THIRD = 'third';
/** The Vault token in the namespace `OTHER`. The operator process has the same token. */
const FOREIGN = 'hvs.foreign-token-of-another-namespace';
/** Text in the listener's answers that no author must ever see. */
const INTERNAL = 'internal-words-of-another-server';

let scene: GeneratorScene;
let requests: { readonly path: string; readonly token: string | undefined }[] = [];
let answer: (request: IncomingMessage, response: ServerResponse) => void;

const listener = createServer((request, response) => {
  requests.push({ path: request.url ?? '', token: request.headers['x-vault-token'] as string | undefined });
  request.resume();
  answer(request, response);
});
const addr = (): string => `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
const connections = promisify(listener.getConnections.bind(listener));

before(async () => {
  scene = await GeneratorScene.open({ eso: false });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  await scene.api.createNamespaces([OTHER, THIRD]);
  await scene.token(OTHER, FOREIGN);
  await scene.token(OTHER, scene.vault.rootToken, 'root');
  await scene.start({ env: { VAULT_TOKEN: FOREIGN, VAULT_ADDR: scene.vault.addr } });
});
after(async () => {
  listener.close();
  await scene?.close();
});
beforeEach(() => {
  requests = [];
  answer = (_, response) => response.writeHead(404).end('{"errors":[]}');
});

/** Creates an ExternalSecret, and waits until it fails with this reason. @returns the message */
async function fails(name: string, reason: string, options: Json = {}, key = `app/${name}`): Promise<string> {
  await scene.externalSecret(name, [{ key, property: 'a' }], options);
  await scene.fail(name);
  const { message } = await scene.says(name, reason);
  assert.ok(!message.includes(FOREIGN) && !scene.operator.output.includes(FOREIGN), 'a token was shown');
  return message;
}

describe('hostile authors of ExternalSecrets', () => {
  it('the server that a store names gets neither a token of another namespace nor the token of the process', async () => {
    const tokenSecretRef = { name: 'vault-token', namespace: OTHER, key: 'vault-token' };
    await scene.store('steal', { server: addr(), auth: { tokenSecretRef } });
    await fails('steal', 'ErrorCreating', { store: 'steal' });
    assert.ok(requests.length > 0);
    // In a SecretStore, Keyferry must ignore the namespace of the reference. So it sends the token in the author's
    // namespace.
    const tokens = new Set(requests.map(({ token }) => token));
    assert.deepEqual(
      [...tokens].filter((token) => token !== undefined),
      [scene.vault.rootToken],
    );
  });

  it('if a ClusterSecretStore does not admit a namespace, the generator makes no value for ExternalSecrets in this namespace', async () => {
    const tokenSecretRef = { name: 'root', namespace: OTHER, key: 'vault-token' };
    const conditions = [{ namespaces: [OTHER] }, { namespaceSelector: { matchLabels: { team: 'other' } } }];
    await scene.store('theirs', { auth: { tokenSecretRef } }, { kind: 'ClusterSecretStore', spec: { conditions } });
    const message = await fails('theirs', 'StoreNotAllowed', { store: 'theirs', storeKind: 'ClusterSecretStore' });
    assert.match(message, /ClusterSecretStore theirs: spec\.conditions: the namespace default may not use the store/);
    assert.equal(await scene.entry('secret/data/app/theirs'), undefined);
    // For a namespace that `spec.conditions` admit, the same store makes values.
    await scene.externalSecret('allowed', [{ key: 'app/theirs', property: 'a' }], {
      namespace: OTHER,
      store: 'theirs',
      storeKind: 'ClusterSecretStore',
    });
    await scene.fail('allowed', OTHER);
    await scene.says('allowed', 'Success', undefined, OTHER);
  });

  it('a SecretStore cannot log in with a Secret of another namespace', async () => {
    await scene.store('reach', { auth: { tokenSecretRef: { name: 'root', namespace: OTHER, key: 'vault-token' } } });
    assert.match(
      await fails('reach', 'ErrorCreating', { store: 'reach' }),
      /secret default\/root for vault token not found/,
    );
    assert.equal(await scene.entry('secret/data/app/reach'), undefined);
  });

  it('an ExternalSecret cannot make the generator write to a Vault path outside of KV mounts, for example sys/policy', async () => {
    await scene.store('any', { path: undefined, version: 'v1' });
    for (const [index, key] of [
      'sys/policy/made',
      'auth/token/create',
      'sys/mounts/made',
      'identity/entity',
    ].entries()) {
      const message = await fails(`outside-${index}`, 'ErrorCreating', { store: 'any' }, key);
      assert.match(message, /is not a KV store|does not say what is mounted/, key);
    }
    const { status } = await scene.vault.raw('GET', 'sys/policies/acl/made');
    assert.equal(status, 404);
  });

  it('if the server of a store is not Vault, its answer appears in no result, no event and no log', async () => {
    const answers: Readonly<Record<string, (response: ServerResponse) => void>> = {
      html: (response) => response.writeHead(200, { 'content-type': 'text/html' }).end(`<b>${INTERNAL}</b>`),
      json: (response) => response.writeHead(200).end(JSON.stringify({ secret: INTERNAL, data: INTERNAL })),
      failure: (response) => response.writeHead(500).end(INTERNAL),
      redirect: (response) => response.writeHead(302, { location: `http://127.0.0.1:1/${INTERNAL}` }).end(),
      forbidden: (response) => response.writeHead(403).end(JSON.stringify({ message: INTERNAL })),
    };
    for (const [name, send] of Object.entries(answers)) {
      answer = (_, response) => send(response);
      await scene.store(`answers-${name}`, { server: addr() });
      const message = await fails(`answers-${name}`, 'ErrorCreating', { store: `answers-${name}` });
      assert.ok(!message.includes(INTERNAL), `${name}: ${message}`);
    }
    const events = await scene.api.list(`/api/v1/namespaces/${HOME}/events`);
    assert.ok(!JSON.stringify(events).includes(INTERNAL));
    assert.ok(!scene.operator.output.includes(INTERNAL), 'the log has it');
  });

  it('ExternalSecrets whose Vault never answers do not delay the ExternalSecrets of another namespace', async () => {
    let ended = 0;
    // The listener also gets retries from the tests above. It answers them with 404.
    const isSilent = (path: string | undefined): boolean => path?.startsWith('/silent-') === true;
    answer = (request, response) => {
      if (isSilent(request.url)) response.once('close', () => (ended += 1));
      else response.writeHead(404).end('{"errors":[]}');
    };
    await scene.store('good', {});
    const stores = ['silent-0', 'silent-1'];
    for (const name of stores) await scene.store(name, { server: `${addr()}/${name}` });
    const items = stores.map((name) => ({ key: 'app/a', property: 'a', sourceRef: { storeRef: { name } } }));
    // Each store gets nine ExternalSecrets: more than the generator tries at the same time for one server.
    for (let index = 0; index < 9; index += 1) {
      for (const store of ['good', 'missing']) {
        const name = `${store}-${index}`;
        await scene.externalSecret(name, [{ key: `app/${name}`, property: 'a' }, ...items], { store });
        await scene.fail(name);
      }
    }
    await waitFor(() => requests.some(({ path }) => isSilent(path)), {
      message: () => `a call to the silent server\n${scene.tail()}`,
    });
    await scene.token(THIRD, scene.vault.rootToken);
    await scene.store('theirs', {}, { namespace: THIRD });
    for (const [name, create, reason] of [
      ['fine', 'true', 'Success'],
      ['wrong', 'yes', 'ErrorAnnotation'],
    ] as const) {
      const options = { namespace: THIRD, store: 'theirs', annotations: { create } };
      await scene.externalSecret(name, [{ key: 'app/third', property: 'a' }], options);
      await scene.fail(name, THIRD);
      await scene.says(name, reason, undefined, THIRD);
    }
    assert.equal(ended, 0);
    listener.closeAllConnections();
  });

  it('a value that exists is neither replaced nor shown, even with generate-when-deleted: "true"', async () => {
    const value = 'value-that-must-stay';
    await scene.vault.request('POST', 'secret/data/app/there', { data: { a: value } });
    await scene.externalSecret('there', [{ key: 'app/there', property: 'a' }], {
      annotations: { create: 'true', 'keyferry.dev/generate-when-deleted': 'true' },
    });
    await scene.fail('there');
    await scene.says('there', 'Exists');
    const { data, metadata } = await scene.entry('secret/data/app/there');
    assert.deepEqual([data, metadata.version], [{ a: value }, 1]);
    const object = await scene.api.get(scene.path('there'));
    assert.ok(!JSON.stringify(object).includes(value) && !scene.operator.output.includes(value));
  });
});

it("with --credentials=environment, the generator sends its token to VAULT_ADDR, and not to the store's server", async () => {
  // The operator of the tests above must have ended and its last request have arrived. Otherwise this request would
  // count.
  await scene.operator.stop();
  await waitFor(async () => (await connections()) === 0, { message: 'the listener to have read what was sent' });
  requests = [];
  await scene.start({
    args: ['--credentials=environment'],
    env: { VAULT_TOKEN: scene.vault.rootToken, VAULT_ADDR: scene.vault.addr },
  });
  await scene.store('elsewhere', { server: addr() });
  await scene.externalSecret('elsewhere', [{ key: 'secret/app/elsewhere', property: 'a' }], { store: 'elsewhere' });
  await scene.fail('elsewhere');
  await scene.says('elsewhere', 'Success');
  assert.ok((await scene.entry('secret/data/app/elsewhere')) !== undefined);
  assert.deepEqual(requests, []);
});
