/**
 * Compares Keyferry with the official client: both must read the same server, headers and TLS material from a
 * kubeconfig. Two cases are left out, in which the official client differs from kubectl: it ignores
 * `users[].user.tokenFile`, and refuses http without the insecure flag.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { KubeConfig } from '@kubernetes/client-node';
import { loadKubeconfig } from './kubeconfig.ts';

const dir = mkdtempSync(join(tmpdir(), 'keyferry-oracle-'));
after(() => rmSync(dir, { recursive: true }));

const base64 = (text: string): string => Buffer.from(text).toString('base64');
for (const [name, content] of [
  ['ca.crt', 'CA'],
  ['tls.crt', 'CERT'],
  ['tls.key', 'KEY'],
] as const) {
  writeFileSync(join(dir, name), content);
}
const credential = {
  apiVersion: 'client.authentication.k8s.io/v1',
  kind: 'ExecCredential',
  status: { token: 'exec-token' },
};
writeFileSync(join(dir, 'plugin.sh'), `#!/bin/sh\necho '${JSON.stringify(credential)}'\n`, { mode: 0o755 });

const EXEC = `{apiVersion: client.authentication.k8s.io/v1, command: "${join(dir, 'plugin.sh')}", interactiveMode: Never}`;

const USERS: Readonly<Record<string, string>> = {
  nobody: '{}',
  token: '{token: abc}',
  'certificate data': `{client-certificate-data: ${base64('CERT')}, client-key-data: ${base64('KEY')}}`,
  'certificate files': '{client-certificate: tls.crt, client-key: tls.key}',
  'certificate and token': `{client-certificate: tls.crt, client-key-data: ${base64('KEY')}, token: abc}`,
  plugin: `{exec: ${EXEC}}`,
  impersonation: '{token: abc, as: somebody}',
};

const CLUSTERS: Readonly<Record<string, string>> = {
  plain: '{server: "http://h:8080", insecure-skip-tls-verify: true}',
  'CA file': '{server: "https://h:6443", certificate-authority: ca.crt}',
  'CA data and name': `{server: "https://h/k8s/c-1", certificate-authority-data: ${base64('CA')}, tls-server-name: other}`,
  insecure: '{server: "https://h", insecure-skip-tls-verify: true}',
};

for (const [clusterName, cluster] of Object.entries(CLUSTERS)) {
  for (const [userName, user] of Object.entries(USERS)) {
    test(`Keyferry and the official client read the same connection from a kubeconfig: cluster ${clusterName}, user ${userName}`, async () => {
      const path = join(dir, 'config');
      writeFileSync(
        path,
        `apiVersion: v1
kind: Config
current-context: other
clusters: [{name: c, cluster: ${cluster}}]
users: [{name: u, user: ${user}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: n}}, {name: other, context: {cluster: c, user: u}}]
`,
      );
      assert.deepEqual(await ours(path), await theirs(path));
    });
  }
}

async function ours(path: string): Promise<unknown> {
  const { server, credentials, namespace } = await loadKubeconfig({ path, context: 'x', env: process.env });
  const headers = await credentials.headers();
  const { ca, cert, key, servername, rejectUnauthorized } = await credentials.tls();
  const [caText, certText, keyText] = [ca, cert, key].map((value) => value?.toString());
  return {
    server: server.href,
    namespace,
    headers,
    ca: caText,
    cert: certText,
    key: keyText,
    servername,
    rejectUnauthorized,
  };
}

async function theirs(path: string): Promise<unknown> {
  const config = new KubeConfig();
  config.loadFromFile(path);
  config.setCurrentContext('x');
  const options: RequestOptions = { headers: {} };
  await config.applyToHTTPSOptions(options);
  const { ca, cert, key, servername, rejectUnauthorized } = options;
  const cluster = config.getCurrentCluster();
  const [caText, certText, keyText] = [ca, cert, key].map((value) =>
    Buffer.isBuffer(value) ? value.toString() : value,
  );
  const headers = { ...(options.headers as Record<string, string>) };
  return {
    server: new URL(cluster?.server ?? '').href,
    namespace: config.getContextObject('x')?.namespace,
    headers,
    ca: caText,
    cert: certText,
    key: keyText,
    servername,
    // If the official client leaves this undefined, Node uses `true`.
    rejectUnauthorized: rejectUnauthorized ?? true,
  };
}
