import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';

import { CertificateAuthority } from '../../test/servers/certificates.ts';
import { findControllerCommand } from './commands.ts';
import { UsageError } from './usage-error.ts';
import { NO_VAULT_ENVIRONMENT, vaultEnvironment } from './vault-environment.ts';

describe("the environment of Vault's own client", () => {
  let folder: string;
  let authority: CertificateAuthority;
  const at = (name: string): string => path.join(folder, name);

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'keyferry-vault-environment-'));
    authority = await CertificateAuthority.create('test');
    const { certPem, keyPem } = await authority.server('client');
    await mkdir(at('certificates'));
    const files = {
      'ca.pem': authority.certPem,
      'certificates/a.pem': authority.certPem,
      'c.pem': certPem,
      'k.pem': keyPem,
    };
    for (const [name, text] of Object.entries(files)) await writeFile(at(name), text);
    await writeFile(at('empty'), 'nothing');
  });
  after(() => rm(folder, { recursive: true }));

  it("the environment variables of Vault's own client have the same meaning in Keyferry", () => {
    assert.deepEqual(vaultEnvironment({ VAULT_CACERT: '', VAULT_SKIP_VERIFY: '' }), NO_VAULT_ENVIRONMENT);
    const read = vaultEnvironment({
      HOME: '/home/a',
      VAULT_ADDR: 'https://vault.example:8200',
      VAULT_TOKEN: 'hvs.x',
      VAULT_CACERT: at('ca.pem'),
      VAULT_CAPATH: at('nowhere'),
      VAULT_SKIP_VERIFY: 'T',
      VAULT_TLS_SERVER_NAME: 'vault.example',
      VAULT_NAMESPACE: 'team/a',
      VAULT_CLIENT_CERT: at('c.pem'),
      VAULT_CLIENT_KEY: at('k.pem'),
      VAULT_CLIENT_TIMEOUT: '30',
      VAULT_HTTP_PROXY: 'http://old:1',
      VAULT_PROXY_ADDR: 'http://proxy:3128',
    });
    const { client, caBundle, token, ...rest } = read;
    assert.equal(token?.utf8(), 'hvs.x');
    assert.match(client?.certificate ?? '', /BEGIN CERTIFICATE/);
    assert.match(client?.key.utf8() ?? '', /PRIVATE KEY/);
    assert.equal(caBundle?.trim(), authority.certPem.trim());
    assert.deepEqual(rest, {
      address: 'https://vault.example:8200',
      tokenFile: '/home/a/.vault-token',
      insecureSkipVerify: true,
      tlsServerName: 'vault.example',
      namespace: 'team/a',
      proxy: 'http://proxy:3128',
      timeoutMs: 30_000,
    });
    assert.equal(vaultEnvironment({ VAULT_CAPATH: at('certificates') }).caBundle?.trim(), authority.certPem.trim());
    assert.equal(vaultEnvironment({ VAULT_HTTP_PROXY: 'http://old:1' }).proxy, 'http://old:1');
    assert.equal(vaultEnvironment({ VAULT_CLIENT_TIMEOUT: '1m30s' }).timeoutMs, 90_000);
  });

  it('a bad value of a Vault variable is refused; the error names the variable and shows no password', () => {
    for (const [name, value] of [
      ['VAULT_CACERT', at('nowhere')],
      ['VAULT_CACERT', at('empty')],
      ['VAULT_CAPATH', at('ca.pem')],
      ['VAULT_SKIP_VERIFY', 'maybe'],
      ['VAULT_NAMESPACE', 'a b'],
      ['VAULT_CLIENT_CERT', at('c.pem')],
      ['VAULT_CLIENT_KEY', at('k.pem')],
      ['VAULT_CLIENT_TIMEOUT', 'soon'],
      ['VAULT_PROXY_ADDR', 'socks5://u:secret@x'],
    ] as const) {
      assert.throws(
        () => vaultEnvironment({ [name]: value }),
        (error) =>
          error instanceof UsageError && error.message.includes(`$${name}`) && !error.message.includes('secret'),
        `${name}=${value}`,
      );
    }
    const swapped = { VAULT_CLIENT_CERT: at('k.pem'), VAULT_CLIENT_KEY: at('c.pem') };
    assert.throws(() => vaultEnvironment(swapped), /VAULT_CLIENT_KEY: not a PEM certificate and its key/);
  });

  it('if --vault-timeout is not given, $VAULT_CLIENT_TIMEOUT sets the timeout; commands without Vault do not read it', () => {
    const env = { VAULT_CLIENT_TIMEOUT: '7s' };
    const processInfo = { env, hostname: 'host', uniqueId: 'u1' };
    const limit = (name: 'run' | 'mirrors', ...argv: string[]): number | undefined =>
      findControllerCommand(name)?.configure(argv, processInfo)?.vault.timeoutMs;
    assert.deepEqual([limit('run'), limit('mirrors')], [7_000, 7_000]);
    assert.deepEqual([limit('run', '--vault-timeout=9s'), limit('mirrors', '--vault-timeout=9s')], [9_000, 9_000]);
    const bad = { ...processInfo, env: { VAULT_CLIENT_TIMEOUT: 'x' } };
    assert.doesNotThrow(() => findControllerCommand('replicator')?.configure([], bad));
    assert.throws(() => findControllerCommand('mirrors')?.configure([], bad), /\$VAULT_CLIENT_TIMEOUT/);
  });
});
