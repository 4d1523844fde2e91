/**
 * Tests the generator, a real Vault and the real External Secrets Operator (ESO), all as Pods. Generator and ESO log in
 * to Vault with the token of a ServiceAccount.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { installEsoCrds } from '../../../servers/external-secrets.ts';
import type { RealCluster } from '../../../servers/real-cluster/cluster.ts';
import { API_SERVICE } from '../../../servers/real-cluster/server-args.ts';
import { Reaper } from '../../../servers/reaper.ts';
import type { Json } from '../../../support/api.ts';
import { HttpClient } from '../../../support/http.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { withPortForward } from '../port-forward.ts';
import { install, rolledOut, skip, startCluster } from '../support.ts';
import { externalSecretsObjects, VAULT_PORT, vaultObjects, writeServerImage } from './programs.ts';

const APPS = 'apps';
const TOOLS = 'tools';
const ACCOUNT = 'vault-login';
/** The audience of the tokens with which ESO and the generator log in. */
const AUDIENCE = 'vault';
const ROOT_TOKEN = 'root-of-the-test';
const POLICY = 'path "secret/data/apps/*" { capabilities = ["create", "read", "update"] }';

describe('the generator in Pods', { skip }, () => {
  let cluster: RealCluster;
  let folder: string;

  before(async () => {
    folder = await Reaper.shared().temporaryFolder('keyferry-images-');
    const images = [await writeServerImage('vault', folder), await writeServerImage('external-secrets', folder)];
    cluster = await startCluster(images);
  });
  after(async () => {
    await cluster?.stop();
    await Reaper.shared().removeFolder(folder);
  });

  /** Runs `work` with a function that calls Vault as root. @throws Error if Vault refuses a call */
  const inVault = (work: (call: (method: string, path: string, body?: Json) => Promise<Json>) => Promise<Json>) =>
    withPortForward(cluster, TOOLS, 'deploy/vault', VAULT_PORT, async (url) => {
      const http = new HttpClient(url);
      const answer = await work(async (method, path, body) => {
        const { status, text } = await http.send(`/v1/${path}`, {
          method,
          headers: { 'x-vault-token': ROOT_TOKEN },
          ...(body !== undefined && { body: JSON.stringify(body) }),
        });
        assert.ok(status >= 200 && status <= 299, `${method} ${path}: ${status} ${text}`);
        return text === '' ? undefined : JSON.parse(text);
      });
      http.close();
      return answer;
    });

  it('the generator in a Pod makes the value that an ExternalSecret lacks, and ESO then creates the Secret', async () => {
    const { api } = cluster;
    await api.createNamespaces([APPS, TOOLS]);
    await installEsoCrds(cluster);
    for (const object of [...vaultObjects(TOOLS, ROOT_TOKEN), ...externalSecretsObjects(TOOLS)])
      await api.create(object);
    await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: ACCOUNT, namespace: APPS } });
    await install(cluster, {
      'generator.enabled': true,
      'generator.credentialsIn': [{ namespace: APPS, serviceAccounts: [ACCOUNT] }],
    });
    await cluster.kubectl('rollout', 'status', `--namespace=${TOOLS}`, 'deploy/vault', '--timeout=110s');
    await inVault(async (call) => {
      await call('POST', 'sys/auth/kubernetes', { type: 'kubernetes' });
      await call('POST', 'auth/kubernetes/config', { kubernetes_host: `https://${API_SERVICE}` });
      await call('PUT', 'sys/policies/acl/apps', { policy: POLICY });
      await call('POST', 'auth/kubernetes/role/apps', {
        bound_service_account_names: [ACCOUNT],
        bound_service_account_namespaces: [APPS],
        token_policies: ['apps'],
        audience: AUDIENCE,
      });
    });
    await rolledOut(cluster);
    await api.create({
      apiVersion: 'external-secrets.io/v1',
      kind: 'SecretStore',
      metadata: { name: 'vault', namespace: APPS },
      spec: {
        provider: {
          vault: {
            server: `http://vault.${TOOLS}.svc:${VAULT_PORT}`,
            path: 'secret',
            version: 'v2',
            auth: {
              kubernetes: {
                mountPath: 'kubernetes',
                role: 'apps',
                serviceAccountRef: { name: ACCOUNT, audiences: [AUDIENCE] },
              },
            },
          },
        },
      },
    });
    await api.create({
      apiVersion: 'external-secrets.io/v1',
      kind: 'ExternalSecret',
      metadata: { name: 'postgres', namespace: APPS, annotations: { create: 'true' } },
      spec: {
        refreshInterval: '1s',
        secretStoreRef: { name: 'vault' },
        target: { name: 'postgres' },
        data: [{ secretKey: 'password', remoteRef: { key: 'apps/postgres', property: 'password' } }],
      },
    });
    const made = await waitFor(() => api.find(`/api/v1/namespaces/${APPS}/secrets/postgres`), {
      message: 'the Secret of ESO',
    }).catch(async (error: unknown) => {
      const objects = await cluster.kubectl('get', 'externalsecrets,secretstores', '--namespace=apps', '--output=yaml');
      const logs = await cluster.kubectl('logs', `--namespace=${TOOLS}`, 'deploy/external-secrets', '--tail=10');
      throw new Error(`${(error as Error).message}\n${objects}\n${logs}`, { cause: error });
    });
    const entry = await inVault((call) => call('GET', 'secret/data/apps/postgres'));
    assert.match(entry.data.data.password, /^[0-9a-f]{64}$/);
    assert.equal(Buffer.from(made.data.password, 'base64').toString(), entry.data.data.password);
  });
});
