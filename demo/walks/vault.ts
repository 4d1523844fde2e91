/** Shows SecretMirror with Vault: Vault to namespaces, Secret to Vault, Vault to Vault, and dynamic credentials. */
import { errorText } from '../../src/observe/error-fields.ts';
import { ServerUnavailableError } from '../../test/servers/go-build.ts';
import { Arrivals } from '../arrivals.ts';
import type { Manifest } from '../cluster.ts';
import { took } from '../screen.ts';
import { type DemoVault, type EntryLook, startVaults } from '../vaults.ts';
import type { Stage, Walk } from '../walk.ts';
import { apply } from './apply.ts';
import { dynamicCredentials } from './vault-dynamic.ts';

const HOME = 'default';
const MIRRORS = `/apis/mirrors.kts.studio/v1alpha2/namespaces/${HOME}/secretmirrors`;
const ENTRY = 'myvaultsecret';
const COPY = 'myvaultsecret-sync';
const OUT = 'deploy-key';
const TARGETS = ['project-c-main', 'project-c-next'] as const;

const FIRST_POLICY = `
path "secret/data/${ENTRY}" { capabilities = ["read"] }
path "secret/data/${OUT}" { capabilities = ["create", "read", "update"] }
path "database/creds/somedb" { capabilities = ["read"] }
path "sys/leases/revoke" { capabilities = ["update"] }`;
const SECOND_POLICY = `
path "secret/data/${ENTRY}" { capabilities = ["create", "read", "update"] }`;

export const vaultWalk: Walk = {
  name: 'vault',
  servers: ['vault'],
  title: 'SecretMirror: to and from Vault',

  async check() {
    // Nothing to check: this walk is skipped in a user's cluster.
  },

  async run(stage) {
    const { screen } = stage;
    if (stage.borrowed) {
      screen.note(
        'skipped: the Vault servers of the demo listen only on this machine, which the cluster may not reach',
      );
      return;
    }
    const vaults = await startVaults(stage).catch((error: unknown) => {
      if (!(error instanceof ServerUnavailableError)) throw error;
      screen.warn(`skipped: ${errorText(error)}`);
      return undefined;
    });
    if (vaults === undefined) return;
    const [first, second] = vaults;
    const addresses = { VAULT_ADDR: first.addr, VAULT2_ADDR: second.addr };
    screen.blank();
    for (const [name, addr] of Object.entries(addresses)) screen.command(`export ${name}=${addr}`);
    await credential(stage, 'vault-approle', await first.approle('keyferry', FIRST_POLICY));
    await credential(stage, 'vault2-approle', await second.approle('keyferry', SECOND_POLICY));
    await intoNamespaces(stage, first, addresses);
    await fromSecret(stage, first, addresses);
    await toTheOther(stage, first, second, addresses);
    await dynamicCredentials(stage, first, addresses);
  },

  async leave() {
    // Nothing to prepare: the mirrors and both Vault servers run on.
  },

  async clean() {
    // Nothing to delete: this walk is skipped in a user's cluster.
  },
};

type Addresses = Readonly<Record<string, string>>;

async function intoNamespaces(stage: Stage, vault: DemoVault, addresses: Addresses): Promise<void> {
  const { screen, cluster, until } = stage;
  await stage.section('From Vault to matching namespaces');
  await put(stage, vault, { username: 'hellothere', password: 'generalkenobi' });
  await apply(stage, 'vault-namespaces.yaml');
  await using arrivals = new Arrivals(cluster.api, {
    collection: 'secrets',
    scope: 'demo-vault',
    path: '/api/v1/secrets',
    fieldSelector: `metadata.name=${COPY}`,
  });
  await arrivals.synced;
  const [startedAt = 0] = await apply(stage, 'vault-to-namespaces.yaml', addresses);
  const seen = new Map<string, string>();
  const lines: [string, number][] = [];
  for (const namespace of TARGETS) {
    const at = await until(`the copy in ${namespace}`, () => arrivals.newerThan(`${namespace}/${COPY}`));
    lines.push([namespace, at - startedAt]);
  }
  await until('the mirror to be Active', async () => {
    const mirror = await cluster.find(`${MIRRORS}/myvaultsecret-mirror`);
    return (mirror as { status?: { mirrorStatus?: string } } | undefined)?.status?.mirrorStatus === 'Active'
      ? true
      : undefined;
  });
  screen.command('kubectl get secretmirrors myvaultsecret-mirror');
  screen.output(await cluster.table(MIRRORS, { query: { fieldSelector: 'metadata.name=myvaultsecret-mirror' } }));
  screen.blank();
  for (const [namespace, ms] of lines) screen.done(`${namespace}/${COPY}`, `${took(ms)} after the mirror was applied`);
  screen.blank();
  for (const namespace of TARGETS) {
    const copy = await cluster.find(`/api/v1/namespaces/${namespace}/secrets/${COPY}`);
    seen.set(namespace, copy?.metadata.resourceVersion ?? '0');
  }
  const changedAt = await put(stage, vault, { username: 'hellothere', password: 'a-bold-one' });
  for (const namespace of TARGETS) {
    const key = `${namespace}/${COPY}`;
    const at = await until(`the change in ${namespace}`, () => arrivals.newerThan(key, seen.get(namespace)));
    screen.done(key, `updated ${took(at - changedAt)} after the change (Vault is polled every 2 s)`);
  }
}

async function fromSecret(stage: Stage, vault: DemoVault, addresses: Addresses): Promise<void> {
  const { screen, cluster } = stage;
  await stage.section('From a Secret to Vault');
  const [startedAt = 0] = await apply(stage, 'secret-to-vault.yaml', addresses);
  const writtenAt = await version(stage, vault, OUT, 1);
  show(stage, 'VAULT_ADDR', OUT, await vault.look(OUT));
  screen.done(`secret/${OUT}`, `written ${took(writtenAt - startedAt)} after the Secret was created`);
  screen.blank();
  const patch = { stringData: { key: 'changed-in-the-cluster' } };
  screen.command(`kubectl patch secret ${OUT} --type merge -p '${JSON.stringify(patch)}'`);
  const changedAt = performance.now();
  await cluster.mergePatch(`/api/v1/namespaces/${HOME}/secrets/${OUT}`, patch);
  const secondAt = await version(stage, vault, OUT, 2);
  screen.output([`secret/${OUT} patched`]);
  show(stage, 'VAULT_ADDR', OUT, await vault.look(OUT));
  screen.done(`secret/${OUT}`, `updated ${took(secondAt - changedAt)} after the change`);
}

async function toTheOther(stage: Stage, first: DemoVault, second: DemoVault, addresses: Addresses): Promise<void> {
  const { screen } = stage;
  await stage.section('From one Vault to another, without a Secret');
  const [startedAt = 0] = await apply(stage, 'vault-to-vault.yaml', addresses);
  const writtenAt = await version(stage, second, ENTRY, 1);
  show(stage, 'VAULT2_ADDR', ENTRY, await second.look(ENTRY));
  screen.done(`secret/${ENTRY} in the second Vault`, `${took(writtenAt - startedAt)} after the mirror was applied`);
  screen.blank();
  const changedAt = await put(stage, first, { username: 'hellothere', password: 'so-uncivilized', note: 'more' });
  const secondAt = await version(stage, second, ENTRY, 2);
  show(stage, 'VAULT2_ADDR', ENTRY, await second.look(ENTRY));
  screen.done(`secret/${ENTRY} in the second Vault`, `updated ${took(secondAt - changedAt)} after the change`);
}

/** Creates a Secret with the IDs of an AppRole. Prints the command for it with placeholders for the IDs. */
async function credential(
  { cluster, screen }: Stage,
  name: string,
  stringData: Readonly<Record<string, string>>,
): Promise<void> {
  const flags = Object.keys(stringData).map((key) => `--from-literal=${key}=…`);
  screen.command(`kubectl create secret generic ${name} ${flags.join(' ')}`);
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: HOME }, stringData };
  await cluster.create(secret as unknown as Manifest);
  screen.output([`secret/${name} created`]);
}

async function put({ screen }: Stage, vault: DemoVault, values: Readonly<Record<string, string>>): Promise<number> {
  const fields = Object.entries(values).map(([key, value]) => `${key}=${value}`);
  screen.command(`vault kv put secret/${ENTRY} ${fields.join(' ')}`);
  const startedAt = await vault.put(ENTRY, values);
  const { version: number } = (await vault.look(ENTRY)) ?? { version: 0 };
  screen.output([`version ${number}`]);
  screen.blank();
  return startedAt;
}

/** Waits until an entry has version `number`. @returns the time when it was found, as `performance.now()` */
async function version({ until }: Stage, vault: DemoVault, name: string, number: number): Promise<number> {
  return await until(`version ${number} of secret/${name}`, async () =>
    (await vault.look(name))?.version === number ? performance.now() : undefined,
  );
}

/** Prints version and keys of an entry. Prints no value. */
function show({ screen }: Stage, variable: string, name: string, look: EntryLook | undefined): void {
  const filter = `jq -c '[.data.metadata.version, (.data.data | keys)]'`;
  screen.command(`vault kv get -address=$${variable} -format=json secret/${name} | ${filter}`);
  screen.output([JSON.stringify([look?.version, look?.keys])]);
  screen.blank();
}
