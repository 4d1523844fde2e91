/** The operator reads the environment variables of Vault's own client, which Deployments of the original set. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';

import { ConnectProxy } from '../../support/connect-proxy.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { CertificateAuthority } from '../../servers/certificates.ts';
import { waitFor } from '../../support/wait-for.ts';
import { policy, VaultScene } from './support.ts';

describe("an operator with the environment of Vault's own client", () => {
  let scene: VaultScene;
  let folder: string;
  let proxy: ConnectProxy;

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'keyferry-environment-'));
    scene = await VaultScene.open({ tls: true });
    proxy = await ConnectProxy.open(() => true);
    const file = path.join(folder, 'ca.pem');
    await writeFile(file, scene.vault.caPem);
    await scene.mirrors.operator({
      env: { VAULT_CACERT: file, VAULT_TLS_SERVER_NAME: 'localhost', VAULT_PROXY_ADDR: proxy.url.href },
    });
    await scene.mirrors.namespaces('target');
    await scene.tokenSecret('all', policy({ '*': ['read'] }));
    await scene.put('secret/data/app', { a: '1' });
  });
  after(async () => {
    await scene.close();
    await proxy[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  it('VAULT_CACERT, VAULT_TLS_SERVER_NAME and VAULT_PROXY_ADDR apply to a mirror whose vault block sets none of these', async () => {
    await scene.fromVault('plain', scene.block('secret/data/app', 'all', { caBundle: '' }), ['target']);
    await scene.mirrors.copied('target', 'plain', { a: '1' });
    await waitFor(() => proxy.tunnels.length > 0, { message: 'a tunnel' });
  });

  it("caBundle and tlsServerName in a mirror's vault block take precedence over VAULT_CACERT and VAULT_TLS_SERVER_NAME", async () => {
    const other = await CertificateAuthority.create('other');
    const untrusted = scene.block('secret/data/app', 'all', { caBundle: other.certPem });
    await scene.fromVault('untrusted', untrusted, ['target']);
    await scene.mirrors.ready('untrusted', 'VaultError', /certificate/i);
    const named = scene.block('secret/data/app', 'all', { tlsServerName: 'vault.example' });
    await scene.fromVault('named', named, ['target']);
    await scene.mirrors.ready('named', 'VaultError', /vault\.example/);
  });
});

failOnLeaks();
