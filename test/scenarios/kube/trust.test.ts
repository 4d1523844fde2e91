/**
 * Compares which certificates of servers Keyferry trusts with what kubectl trusts, for the same kubeconfig. The clients
 * of Kubernetes and of Vault share the rules (`src/http/agent.ts`), so both are asked.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { inspect, promisify } from 'node:util';
import { generate } from 'selfsigned';
import { loadKubeconfig } from '../../../src/kube/auth/kubeconfig.ts';
import { HttpKubeApi } from '../../../src/kube/http.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { VaultClient } from '../../../src/vault/client/client.ts';
import { parseServer } from '../../../src/vault/client/server.ts';
import { type Certificate, CertificateAuthority } from '../../servers/certificates.ts';
import { ensureServer } from '../../servers/ensure.ts';

let folder: string;
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'keyferry-trust-'));
});
after(() => rm(folder, { recursive: true }));

interface Case {
  /** What the server sends: its certificate and perhaps intermediate ones. */
  readonly sent: readonly Certificate[];
  readonly bundle: readonly Certificate[];
  readonly trusted: boolean;
  readonly tlsServerName?: string;
  /** kubectl trusts the server, but OpenSSL cannot: the page about Vault says so. */
  readonly onlyGo?: true;
}

async function cases(): Promise<Record<string, Case>> {
  const root = await CertificateAuthority.create('root');
  const issuing = await CertificateAuthority.create('issuing', root);
  const [old, renewed] = [await CertificateAuthority.create('same'), await CertificateAuthority.create('same')];
  const [direct, leaf, sibling] = [await root.server('a'), await issuing.server('b'), await issuing.server('c')];
  const [byOld, byRenewed] = [await old.server('d'), await renewed.server('d')];
  const { private: keyPem, cert: certPem } = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec',
    algorithm: 'sha256',
  });
  const selfSigned = { certPem, keyPem };
  const [rootCa, issuingCa] = [root.certificate, issuing.certificate];
  const both = [old.certificate, renewed.certificate];
  return {
    'the CA': { sent: [direct], bundle: [rootCa], trusted: true },
    'the root CA, and the server sends the issuing one': { sent: [leaf, issuingCa], bundle: [rootCa], trusted: true },
    'the root CA, and the server does not send the issuing one': { sent: [leaf], bundle: [rootCa], trusted: false },
    'both CAs of the chain': { sent: [leaf], bundle: [issuingCa, rootCa], trusted: true },
    'the issuing CA alone': { sent: [leaf], bundle: [issuingCa], trusted: true },
    'the issuing CA alone, and the server sends it too': {
      sent: [leaf, issuingCa],
      bundle: [issuingCa],
      trusted: true,
    },
    'the certificate of the server': { sent: [direct], bundle: [direct], trusted: true },
    'the certificate of the server, which sends its issuer': { sent: [leaf, issuingCa], bundle: [leaf], trusted: true },
    'the certificate of the server, which signed itself': { sent: [selfSigned], bundle: [selfSigned], trusted: true },
    'the certificate of the server, but the server has another name': {
      sent: [direct],
      bundle: [direct],
      trusted: false,
      tlsServerName: 'other.example',
    },
    'the certificate of another server of the same CA': { sent: [leaf], bundle: [sibling], trusted: false },
    'a certificate that is no CA, and has signed that of the server': {
      sent: [await new CertificateAuthority(direct).server('e')],
      bundle: [direct],
      trusted: false,
    },
    'the CA, and the certificate is one for clients': {
      sent: [await root.client({ commonName: 'localhost' })],
      bundle: [rootCa],
      trusted: false,
    },
    'another CA': { sent: [direct], bundle: [issuingCa], trusted: false },
    'another CA, and the server signed itself': { sent: [selfSigned], bundle: [rootCa], trusted: false },
    'two CAs of one name, and the first signed': { sent: [byOld], bundle: both, trusted: true },
    'two CAs of one name, and the second signed': { sent: [byRenewed], bundle: both, trusted: true, onlyGo: true },
  };
}

test('Keyferry trusts the same certificates as kubectl, and its errors give no advice about Node', async (t) => {
  const kubectl = await ensureServer('kubectl');
  for (const [name, { sent, bundle, trusted, tlsServerName, onlyGo }] of Object.entries(await cases())) {
    await t.test(`the bundle has ${name}`, async (it) => {
      const addr = await serve(it, sent);
      const caBundle = bundle.map(({ certPem }) => certPem).join('\n');
      const config = path.join(folder, name);
      await writeFile(config, JSON.stringify(kubeconfig(addr, caBundle, tlsServerName)));
      const raw = promisify(execFile)(kubectl, ['--kubeconfig', config, 'get', '--raw', '/v1/x']);
      assert.equal(await raw.then(() => 'ok', String).then(verdict), trusted, 'kubectl');

      await using api = new HttpKubeApi(await loadKubeconfig({ path: config, env: {} }));
      const vault = new VaultClient(parseServer({ addr, caBundle, tlsServerName }), { clock: systemClock });
      it.after(() => vault.close());
      const calls = {
        Kubernetes: () => api.request({ method: 'GET', path: '/v1/x' }),
        Vault: () => vault.identity().request({ method: 'GET', path: 'x' }),
      };
      for (const [client, call] of Object.entries(calls)) {
        const text = await call().then(
          () => 'ok',
          // With the causes and stacks, as a log at the level debug has them.
          (error: unknown) => inspect(error),
        );
        assert.equal(verdict(text), trusted && onlyGo !== true, `${client}: ${text}`);
        assert.doesNotMatch(text, /Node\.js|--use-|NODE_/, client);
        if (onlyGo === true) assert.match(text, /several CAs in a bundle with one name and no key identifier/, client);
      }
    });
  }
});

/** Whether the server was trusted. Any failure but one of the certificate is an error of the test. */
function verdict(text: string): boolean {
  assert.match(text, /^ok$|certificate|altnames/);
  return text === 'ok';
}

/** Starts a server that sends these certificates. @returns its address */
async function serve(it: { after(stop: () => void): void }, sent: readonly Certificate[]): Promise<string> {
  const cert = sent.map(({ certPem }) => certPem).join('\n');
  const server = createServer({ cert, key: sent[0]?.keyPem }, (_, answer) => {
    answer.setHeader('Content-Type', 'application/json').end('{}');
  });
  it.after(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function kubeconfig(server: string, caBundle: string, tlsServerName: string | undefined): object {
  const cluster = {
    server,
    'certificate-authority-data': Buffer.from(caBundle).toString('base64'),
    'tls-server-name': tlsServerName,
  };
  return {
    'current-context': 'c',
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user: { token: 'a' } }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
  };
}
