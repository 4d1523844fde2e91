/**
 * Applies every manifest of `examples/` to a real API server, with Keyferry, Vault and External Secrets Operator, and
 * compares what the pages there show.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { installEsoCrds, startExternalSecrets } from '../../servers/external-secrets.ts';
import { findPostgres, startPostgres } from '../../servers/postgres.ts';
import { databaseRole, mountDatabase } from '../../servers/vault-database.ts';
import { startVault, type VaultServer } from '../../servers/vault.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { codeBlocks } from '../../support/markdown.ts';
import { Shell, stepsOf } from './shell.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const EXAMPLES = globSync('examples/*/', { cwd: ROOT }).toSorted();
const DYNAMIC = 'examples/vault-dynamic-credentials';
const TENANT = 'primary';

const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8');

const postgres = findPostgres();
const resources = new AsyncDisposableStack();
/** Addresses and credentials that a reader replaces, and what the test puts in their place. */
const replacements: Record<string, string> = {};
let plane: ControlPlane;
let shell: Shell;

before(async () => {
  const [cluster, vault] = await Promise.all([
    startControlPlane({ controllerManager: false, crds: true }),
    startVault(),
  ]);
  plane = cluster;
  resources.defer(() => plane.stop());
  resources.use(vault);
  shell = new Shell(plane, {});
  await installEsoCrds(plane);
  // One cluster is the cluster of the team and the central one.
  await plane.api.createNamespaces([`tenant-${TENANT}`]);
  const login = await approle(vault, read(`${DYNAMIC}/policy.hcl`));
  Object.assign(replacements, {
    'https://vault.example.com': vault.addr,
    'your-role-id': login.roleId,
    'your-secret-id': login.secretId,
    's.YOURTOKEN': vault.rootToken,
  });
  if ('bin' in postgres) {
    const database = resources.use(await startPostgres());
    await mountDatabase(vault, 'database', database);
    await databaseRole(vault, 'database', 'shop', { ttl: '1h' });
  }
  const eso = await startExternalSecrets(plane);
  resources.defer(() => eso.stop());
  const args = [
    '--controllers=mirrors,syncsecret-manager,syncsecret-ccm,generator',
    `--syncsecret-cluster-name=${TENANT}`,
    `--syncsecret-kubelb-kubeconfig=${plane.kubeconfigPath}`,
  ];
  await resources.use(await Keyferry.start({ kubeconfig: plane.kubeconfigPath, args })).ready();
});
after(() => resources.disposeAsync());

async function approle(vault: VaultServer, policy: string): Promise<{ roleId: string; secretId: string }> {
  await vault.request('PUT', 'sys/policies/acl/shop', { policy });
  await vault.request('POST', 'sys/auth/approle', { type: 'approle' });
  await vault.request('POST', 'auth/approle/role/shop', { token_policies: ['shop'] });
  const role = await vault.request('GET', 'auth/approle/role/shop/role-id');
  const secret = await vault.request('POST', 'auth/approle/role/shop/secret-id', {});
  return { roleId: role.data.role_id, secretId: secret.data.secret_id };
}

/** What `kubectl apply -f FOLDER` does: it applies all files in the order of their names. */
async function applyFolder(folder: string): Promise<void> {
  for (const file of globSync(`${folder}/*.yaml`, { cwd: ROOT }).toSorted()) {
    let text = read(file);
    for (const [from, to] of Object.entries(replacements)) text = text.replaceAll(from, to);
    await plane.api.apply(text);
  }
}

describe('the examples', () => {
  it('are each in the list of examples/README.md', () => {
    assert.ok(EXAMPLES.length >= 6);
    for (const folder of EXAMPLES)
      assert.ok(read('examples/README.md').includes(`](${path.basename(folder)}/README.md)`), folder);
  });

  for (const folder of EXAMPLES) {
    const skip = folder === DYNAMIC && 'missing' in postgres ? postgres.missing : false;
    it(`the manifests in ${folder} apply, and the copies are those that its page shows`, { skip }, async () => {
      const blocks = codeBlocks(read(`${folder}/README.md`)).filter(({ language }) => language === 'console');
      const [first, ...rest] = blocks.flatMap(({ text }) => stepsOf(text));
      assert.equal(first?.command, `kubectl apply -f ${folder}/`);
      assert.ok(
        rest.some(({ shown }) => shown !== ''),
        'the page shows the result',
      );
      await applyFolder(folder);
      for (const step of rest) await shell.run(step);
    });
  }
});

failOnLeaks();
