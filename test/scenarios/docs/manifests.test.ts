/**
 * Checks the manifests of README and docs on a real API server, with Keyferry running. The test follows each page from
 * top to bottom, as a reader does. It applies the YAML, or saves it if the block has `file=NAME`. It runs the console
 * commands and compares their output with the page. It skips blocks with `yaml fragment`.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';

import { findControllerCommand } from '../../../src/config/commands.ts';
import { startControlPlane } from '../../servers/control-plane.ts';
import type { ControlPlane } from '../../servers/control-plane.ts';
import { findPostgres, startPostgres } from '../../servers/postgres.ts';
import { databaseRole, mountDatabase } from '../../servers/vault-database.ts';
import { enableKubernetesAuth } from '../../servers/vault-kubernetes.ts';
import { startVault } from '../../servers/vault.ts';
import type { VaultServer } from '../../servers/vault.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { type CodeBlock, codeBlocks } from '../../support/markdown.ts';
import { Shell, stepsOf } from './shell.ts';

const ROOT = new URL('../../..', import.meta.url);
/** The namespaces and Secrets that must exist before the page, and the SecretMirror that the page creates. */
interface Given {
  readonly namespaces: readonly string[];
  /** The Secret that must exist before the page; `undefined` if the page creates it. */
  readonly secret?: {
    readonly type?: string;
    readonly stringData: Readonly<Record<string, string>>;
  };
  /**
   * Namespaces that have the Secret before the mirror exists: the namespace of the source, and a namespace whose Secret
   * Keyferry does not manage.
   */
  readonly secretIn: readonly string[];
  readonly secretName: string;
  readonly mirror: string;
}
const GIVEN: Readonly<Record<string, Given>> = {
  'README.md': {
    namespaces: ['web-api'],
    secret: {
      type: 'kubernetes.io/tls',
      stringData: { 'tls.crt': 'certificate', 'tls.key': 'key' },
    },
    secretIn: ['default'],
    secretName: 'wildcard-tls',
    mirror: 'wildcard-tls',
  },
  'docs/first-steps.md': {
    namespaces: [],
    secretIn: ['default', 'webshop-b-main'],
    secretName: 'db-login',
    mirror: 'db-login-mirror',
  },
};
/** Pages in the order of the test. Pages after docs/mirrors.md use the Secret `mysecret` of that page. */
const PAGES = [
  ...new Set([...Object.keys(GIVEN), 'docs/mirrors.md', ...globSync('docs/*.md', { cwd: ROOT.pathname }).toSorted()]),
  // certificate.test.ts follows this page.
].filter((page) => page !== 'docs/wildcard-certificate.md');
/**
 * A Vault policy that is wide enough for all pages. Each page shows a narrow policy;
 * test/scenarios/mirrors-vault/more/policies.test.ts tests these.
 */
const POLICY = ['secret/*', 'mongodb/creds/*', 'sys/leases/revoke']
  .map((path) => `path "${path}" { capabilities = ["create", "read", "update"] }`)
  .join('\n');

const postgres = findPostgres();
const resources = new AsyncDisposableStack();
const PROCESS = { env: {}, hostname: 'host', uniqueId: 'u1' };
/** Addresses and credentials that a reader replaces, and what the test puts in their place. */
const replacements: Record<string, string> = {};
let plane: ControlPlane;
let shell: Shell;

before(async () => {
  const [cluster, first, second] = await Promise.all([
    startControlPlane({ controllerManager: false, crds: true }),
    startVault(),
    startVault(),
  ]);
  plane = cluster;
  resources.defer(() => plane.stop());
  for (const vault of [first, second]) resources.use(vault);
  shell = new Shell(plane, {
    'https://vault.example.com': first,
    'https://vault1.example.com': first,
    'https://vault2.example.com': second,
  });
  await plane.api.apply(readFileSync(new URL('deploy/rbac.yaml', ROOT), 'utf8'));
  const ids = await approle(first);
  Object.assign(replacements, {
    'https://vault.example.com': first.addr,
    'https://vault1.example.com': first.addr,
    'https://vault2.example.com': second.addr,
    'your-role-id': ids['role-id'],
    'your-secret-id': ids['secret-id'],
    's.YOURTOKEN': first.rootToken,
  });
  await credentials('vault1-approle', ids);
  await credentials('vault2-approle', await approle(second));
  if ('bin' in postgres) {
    const database = resources.use(await startPostgres());
    await mountDatabase(first, 'mongodb', database);
    await databaseRole(first, 'mongodb', 'somedb', { ttl: '1h' });
  }
  await kubernetesAuth(first);
  // The pages about SyncSecrets use one cluster as tenant cluster and as management cluster.
  await plane.api.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'tenant-primary' } });
  const args = [
    '--controllers=mirrors,replicator,reflector,config-syncer,mittwald,syncsecret-manager,syncsecret-ccm',
    '--syncsecret-cluster-name=primary',
    `--syncsecret-kubelb-kubeconfig=${plane.kubeconfigPath}`,
  ];
  const keyferry = resources.use(await Keyferry.start({ kubeconfig: plane.kubeconfigPath, args }));
  await keyferry.ready();
});
after(() => resources.disposeAsync());

async function approle(vault: VaultServer): Promise<Record<'role-id' | 'secret-id', string>> {
  await vault.request('PUT', 'sys/policies/acl/reader', { policy: POLICY });
  await vault.request('POST', 'sys/auth/approle', { type: 'approle' });
  await vault.request('POST', 'auth/approle/role/reader', { token_policies: ['reader'] });
  const role = await vault.request('GET', 'auth/approle/role/reader/role-id');
  const secret = await vault.request('POST', 'auth/approle/role/reader/secret-id', {});
  return { 'role-id': role.data.role_id, 'secret-id': secret.data.secret_id };
}

async function kubernetesAuth(vault: VaultServer): Promise<void> {
  await enableKubernetesAuth(vault, 'kubernetes', plane);
  await vault.request('POST', 'auth/kubernetes/role/vault-reader', {
    bound_service_account_names: ['vault-reader'],
    bound_service_account_namespaces: ['default'],
    audience: 'vault',
    token_policies: ['reader'],
  });
}

async function credentials(name: string, stringData: Readonly<Record<string, string>>): Promise<void> {
  await plane.api.apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'default' }, stringData });
}

/** Applies manifests. Creates their namespaces first. */
async function apply(manifests: string): Promise<void> {
  let text = manifests;
  for (const [from, to] of Object.entries(replacements)) text = text.replaceAll(from, to);
  const objects = parseAllDocuments(text).map((document) => document.toJS());
  const namespaces = new Set(objects.map(({ metadata }) => metadata.namespace).filter((name) => name !== undefined));
  await plane.api.apply([...namespaces].map((name) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })));
  await plane.api.apply(objects);
}

/** Whether a block has a rule. A rule makes copies. */
function isRule({ text }: CodeBlock): boolean {
  return [
    'kind: SecretMirror',
    'kind: SyncSecret',
    'k8s-replicator/',
    'reflector.v1.k8s.emberstack.com/',
    'kubed.appscode.com/',
  ].some((sign) => text.includes(sign));
}

async function follow(blocks: readonly CodeBlock[]): Promise<void> {
  for (const { language, mark, text } of blocks) {
    if (mark.startsWith('file=')) shell.save(mark.slice('file='.length), text);
    else if (language === 'yaml') await apply(text);
    else for (const step of stepsOf(text)) await shell.run(step);
  }
}

/** Creates the objects that must exist before the page, and deletes them after the page. */
function prepare({ namespaces, secret, secretIn, secretName: name, mirror }: Given): void {
  before(async () => {
    await plane.api.apply(namespaces.map((name) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })));
    for (const namespace of secret === undefined ? [] : secretIn)
      await plane.api.apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, ...secret });
  });
  after(async () => {
    await shell.run({ command: `kubectl delete secretmirror ${mirror}`, shown: '' });
    for (const namespace of secretIn) await plane.api.delete(`/api/v1/namespaces/${namespace}/secrets/${name}`);
  });
}

for (const page of PAGES) {
  const blocks = codeBlocks(readFileSync(new URL(page, ROOT), 'utf8')).filter(
    ({ language, mark }) => (language === 'yaml' || language === 'console') && mark !== 'fragment',
  );
  if (blocks.length === 0) continue;
  describe(page, () => {
    const given = GIVEN[page];
    if (given !== undefined) prepare(given);
    for (const heading of new Set(blocks.map((block) => block.heading))) {
      const section = blocks.filter((block) => block.heading === heading);
      const skip = heading.startsWith('Dynamic credentials') && 'missing' in postgres ? postgres.missing : false;
      it(`the manifests and commands of ${page}, section "${heading}", do what the page shows`, { skip }, async () => {
        const shown = section.some(({ language, text }) => language === 'console' && text.includes(' get '));
        assert.ok(shown || !section.some(isRule), 'the page shows the result');
        await follow(section);
      });
    }
  });
}

it('Pods of the Deployments in docs and deploy/ meet the Pod Security Standard `restricted`, and have valid arguments and ServiceAccounts', async () => {
  const deployments = PAGES.flatMap((page) => codeBlocks(readFileSync(new URL(page, ROOT), 'utf8')))
    .filter(({ text }) => text.includes('kind: Deployment'))
    .map(({ text }) => parse(text));
  const objects = globSync('deploy/*.yaml', { cwd: ROOT.pathname }).flatMap((file) =>
    parseAllDocuments(readFileSync(new URL(file, ROOT), 'utf8')).map((document) => document.toJS()),
  );
  const places = objects
    .filter(({ kind }) => kind === 'ServiceAccount')
    .map(({ metadata: { namespace, name } }) => `${namespace}/${name}`);
  const accounts = new Set(places);
  const namespace = 'restricted';
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  await plane.api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } });
  assert.deepEqual(
    deployments.map(({ metadata }) => metadata.name),
    ['keyferry', 'keyferry-syncsecret-manager', 'keyferry-syncsecret-ccm'],
  );
  for (const deployment of deployments) {
    const { metadata, spec } = deployment.spec.template;
    const { name } = deployment.metadata;
    assert.ok(accounts.has(`${deployment.metadata.namespace}/${spec.serviceAccountName}`), name);
    const account = { name: spec.serviceAccountName, namespace };
    await plane.api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account });
    const pod = (podSpec: object) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...metadata, name, namespace },
      spec: podSpec,
    });
    const [container] = spec.containers;
    const unsafe = { ...spec, containers: [{ ...container, securityContext: {} }] };
    await assert.rejects(plane.api.create(pod(unsafe)), /PodSecurity/, name);
    await plane.api.create(pod(spec));
    const [command, ...flags] = container.args;
    assert.doesNotThrow(() => findControllerCommand(command)?.configure(flags, PROCESS), name);
    assert.ok(findControllerCommand(command), name);
  }
});

failOnLeaks();
