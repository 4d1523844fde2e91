/**
 * If a user makes a mistake with Vault, a condition and an event name the mistake and its field or entry. Existing
 * copies stay complete, and other mirrors are not affected.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';

import { readCrds } from '../../../scripts/crd/read-crds.ts';
import { CertificateAuthority } from '../../servers/certificates.ts';
import { type FaultProxy, startFaultProxy } from '../../servers/fault-proxy.ts';
import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { waitFor } from '../../support/wait-for.ts';
import { COPY_LABEL, HOME, mirrorPath, OWNED_BY } from '../mirrors/support.ts';
import { ALL, policy, VaultScene } from './support.ts';

const AT = { addr: 'http://127.0.0.1:1', path: 'secret/data/x' };

/**
 * Invalid `vault` blocks, and the message after the field's name. The blocks are stored under an older CRD, because the
 * CRD of deploy/ refuses them.
 */
const STORED: Readonly<Record<string, readonly [Json, RegExp]>> = {
  'no-block': [undefined, /: must be specified for type vault/],
  'no-auth': [AT, /\.auth: must specify one of approle, token or kubernetes/],
};

describe('mirrors with bad input in Vault or in their vault block', () => {
  let scene: VaultScene;
  let operator: Keyferry;
  let proxy: FaultProxy;

  before(async () => {
    scene = await VaultScene.open({ storage: 'file' });
    const { mirrors, vault } = scene;
    proxy = await startFaultProxy({ upstream: vault.addr });
    await mirrors.namespaces('target');
    await mirrors.secret(HOME, 'source', { a: '1' });
    await mirrors.api.apply(readFileSync(new URL('../mirrors/permissive-crd.yaml', import.meta.url), 'utf8'));
    await inForce(201);
    for (const [name, [vault]] of Object.entries(STORED)) {
      await mirrors.api.create(stored(`from-${name}`, { type: 'vault', vault }, { namespaces: ['target'] }));
      await mirrors.api.create(stored(`to-${name}`, { name: 'source' }, { type: 'vault', vault }));
      await mirrors.secret('target', `from-${name}`, { a: 'from better times' }, copyOf(`from-${name}`));
    }
    await mirrors.api.apply(readCrds());
    await inForce(422);
    operator = await mirrors.operator();
    await scene.tokenSecret('all', ALL);
  });
  after(async () => {
    await scene.close();
    await proxy.stop();
  });

  const stored = (name: string, source: Json, destination: Json): Json => ({
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { name, namespace: HOME },
    spec: { pollPeriodSeconds: 1, source, destination },
  });
  const copyOf = (name: string): Json => ({
    metadata: { labels: { [COPY_LABEL]: 'mirrors' }, annotations: { [OWNED_BY]: `${HOME}/${name}` } },
  });
  const inForce = (status: number): Promise<boolean> =>
    waitFor(async () => {
      const body = stored('probe', { type: 'vault' }, { namespaces: ['a'] });
      return (
        (await scene.mirrors.api.raw('POST', mirrorPath(''), { body, query: { dryRun: 'All' } })).status === status
      );
    });

  /** Waits until the condition and a Warning event have the message, and checks that the operator is running. */
  async function waitForReport(name: string, reason: string, message: RegExp, mirrorStatus = 'Error'): Promise<string> {
    const status = await scene.mirrors.ready(name, reason, message);
    assert.equal(status.mirrorStatus, mirrorStatus);
    const event = await scene.mirrors.event(name, reason, message);
    assert.equal(event.type, 'Warning');
    assert.ok(operator.running);
    return status.conditions[0].message;
  }

  for (const [name, [, message]] of Object.entries(STORED)) {
    it(`if a stored mirror has an invalid vault block (${name}), its status names the field, the copy stays, and the mirror can be deleted`, async () => {
      const { mirrors } = scene;
      await waitForReport(`from-${name}`, 'InvalidSpec', new RegExp(`^spec\\.source\\.vault${message.source}`));
      await waitForReport(`to-${name}`, 'InvalidSpec', new RegExp(`^spec\\.destination\\.vault${message.source}`));
      await mirrors.copied('target', `from-${name}`, { a: 'from better times' });
      for (const side of ['from', 'to']) {
        await mirrors.api.delete(mirrorPath(`${side}-${name}`));
        await mirrors.gone(mirrorPath(`${side}-${name}`));
      }
    });
  }

  /**
   * Creates two mirrors and waits until both are Synced. One copies from an entry of Vault, the other into an entry;
   * both use the proxy.
   */
  async function createPair(name: string, values: Readonly<Record<string, string>> = { a: '1' }): Promise<void> {
    const { mirrors } = scene;
    const block = (path: string): Json => scene.block(path, 'all', { addr: proxy.url });
    await scene.put(`secret/data/from-${name}`, values);
    await mirrors.secret(HOME, name, values);
    await scene.fromVault(`from-${name}`, block(`secret/data/from-${name}`), ['target']);
    await scene.toVault(`to-${name}`, { name }, block(`secret/data/to-${name}`));
    await mirrors.copied('target', `from-${name}`, values);
    await scene.holds(`secret/data/to-${name}`, values);
    await mirrors.ready(`from-${name}`, 'Synced');
    await mirrors.ready(`to-${name}`, 'Synced');
  }

  async function assertUnaffected(name: string): Promise<void> {
    await scene.mirrors.copied('target', `from-${name}`, { a: '1' });
    const entry = await scene.holds(`secret/data/to-${name}`, { a: '1' });
    assert.equal(entry.metadata.version, 1);
  }

  it("if a Vault policy forbids a mirror's path, the mirror reports it, also when the policy changes later", async () => {
    const { mirrors, vault } = scene;
    await mirrors.secret(HOME, 'refused', { a: '2' });
    await scene.put('secret/data/forbidden', { a: '1' });
    await scene.tokenSecret('narrow', policy({ 'secret/data/forbidden': ['read'] }));
    const block = scene.block('secret/data/forbidden', 'narrow');
    await scene.fromVault('forbidden', block, ['target']);
    await mirrors.copied('target', 'forbidden', { a: '1' });
    await scene.toVault('forbidden-to', { name: 'refused' }, scene.block('secret/data/forbidden', 'narrow'));
    const refused = /vault http:\/\/127\.0\.0\.1:\d+: (?:GET|POST) secret\/data\/forbidden: .*permission denied/;
    await waitForReport('forbidden-to', 'VaultError', refused);
    await vault.request('PUT', 'sys/policies/acl/narrow', { policy: policy({ 'secret/data/other': ['read'] }) });
    await waitForReport('forbidden', 'VaultError', refused);
    await mirrors.copied('target', 'forbidden', { a: '1' });
    const entry = await scene.holds('secret/data/forbidden', { a: '1' });
    assert.equal(entry.metadata.version, 1);
  });

  it('if an entry gets keys that are invalid in a Secret, its copy stays unchanged until these keys are gone', async () => {
    await createPair('keys');
    await scene.put('secret/data/from-keys', { a: '2', 'b/c': '2', '': '2', [`long-${'x'.repeat(300)}`]: '2' });
    const text = await waitForReport(
      'from-keys',
      'InvalidKeys',
      /secret\/data\/from-keys has keys that are not valid in a Secret: .*"b\/c"/,
    );
    assert.ok(text.includes('""') && text.length < 1000, text);
    await assertUnaffected('keys');
    await scene.put('secret/data/from-keys', { a: '3' });
    await scene.mirrors.copied('target', 'from-keys', { a: '3' });
  });

  for (const [what, body, words] of [
    ['a page of HTML', '<html><body>Sign in, please</body></html>', /JSON/],
    ['data that is no object', { data: { data: 'text', metadata: { version: 'one' } } }, /format of an entry/],
  ] as const) {
    it(`if Vault answers 200 with ${what}, the mirror reports it without a value, and the copies stay`, async () => {
      const name = what.replaceAll(/[^a-z]+/gi, '-').toLowerCase();
      await createPair(name);
      // Lookups of the mount pass, so that the report is always about the entry.
      proxy.rule({ match: { path: /^\/v1\/secret\/data\// }, fault: { kind: 'respond', status: 200, body } });
      try {
        await scene.mirrors.change(HOME, name, { a: '2' });
        const where = `vault ${proxy.url}: GET secret/data/`;
        for (const side of ['from', 'to']) {
          const text = await waitForReport(
            `${side}-${name}`,
            'VaultError',
            new RegExp(`${where}${side}-${name}: .*${words.source}`),
          );
          assert.ok(!text.includes('Sign in') && !text.includes('"a"'), text);
        }
        await assertUnaffected(name);
      } finally {
        proxy.clearRules();
      }
      await scene.holds(`secret/data/to-${name}`, { a: '2' });
      await scene.mirrors.ready(`from-${name}`, 'Synced');
    });
  }

  it('if Vault has an untrusted certificate, a certificate for another name or no TLS, the mirror reports it', async () => {
    const { mirrors } = scene;
    const tls = await scene.anotherVault({ tls: true });
    const stranger = await CertificateAuthority.create('stranger');
    await scene.tokenSecret('tls', ALL, tls);
    await scene.put('secret/data/tls', { a: '1' }, tls);
    const block = (more: Json): Json => scene.block('secret/data/tls', 'tls', more, tls);
    await scene.fromVault('tls', block({}), ['target']);
    await mirrors.copied('target', 'tls', { a: '1' });
    const change = (more: Json): Promise<Json> =>
      mirrors.api.patch(mirrorPath('tls'), { spec: { source: { vault: more } } });
    await change({ caBundle: stranger.certPem });
    await waitForReport('tls', 'VaultError', new RegExp(`vault ${tls.addr}: .*certificate`));
    await change({ caBundle: tls.caPem, tlsServerName: 'vault.example' });
    await waitForReport('tls', 'VaultError', new RegExp(`vault ${tls.addr}: .*vault\\.example`));
    await change({ caBundle: '-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n' });
    await waitForReport(
      'tls',
      'InvalidSpec',
      /^spec\.source\.vault\.caBundle: holds a certificate that cannot be read/,
    );
    await mirrors.copied('target', 'tls', { a: '1' });
    await change({ caBundle: tls.caPem, tlsServerName: null });
    await mirrors.ready('tls', 'Synced');
    await scene.toVault(
      'tls-to',
      { name: 'source' },
      block({ caBundle: stranger.certPem, path: 'secret/data/tls-to' }),
    );
    await waitForReport('tls-to', 'VaultError', new RegExp(`vault ${tls.addr}: .*certificate`));
    const plain = { addr: scene.vault.addr.replace('http:', 'https:') };
    await scene.fromVault('no-tls', scene.block('secret/data/tls', 'all', plain), ['target']);
    await waitForReport(
      'no-tls',
      'VaultError',
      /vault https:\/\/127\.0\.0\.1:\d+: .*(?:TLS|SSL|packet|wrong version)/i,
    );
  });

  it("a credential in a namespace that is not the mirror's is refused, but accepted with --allow-cross-namespace-auth", async () => {
    const { mirrors } = scene;
    const { data } = await mirrors.find(HOME, 'all');
    await mirrors.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'theirs', namespace: 'target' },
      data,
    });
    const auth = { token: { secretRef: { name: 'theirs', namespace: 'target' } } };
    await scene.put('secret/data/foreign', { a: '1' });
    await scene.fromVault('foreign', scene.block('secret/data/foreign', '', { auth }), ['target']);
    const field = 'auth\\.token\\.secretRef\\.namespace: .*"target".*--allow-cross-namespace-auth';
    await waitForReport('foreign', 'InvalidSpec', new RegExp(`^spec\\.source\\.vault\\.${field}`));
    await scene.toVault('foreign-to', { name: 'source' }, scene.block('secret/data/foreign-to', '', { auth }));
    await waitForReport('foreign-to', 'InvalidSpec', new RegExp(`^spec\\.destination\\.vault\\.${field}`));
    assert.equal(await mirrors.find('target', 'foreign'), undefined);
    assert.equal((await operator.stop()).code, 0);
    operator = await mirrors.operator({ args: ['--allow-cross-namespace-auth'] });
    await mirrors.copied('target', 'foreign', { a: '1' });
    await scene.holds('secret/data/foreign-to', { a: '1' });
  });
});

failOnLeaks();
