/**
 * Shows the generator: an ExternalSecret of the External Secrets Operator (ESO) needs an entry that Vault does not
 * have.
 */
import { errorText } from '../../src/observe/error-fields.ts';
import type { KubeObject } from '../../src/kube/api.ts';
import { serverRecipe } from '../../test/servers/catalogue.ts';
import { esoCrds, startExternalSecrets } from '../../test/servers/external-secrets.ts';
import { ServerUnavailableError } from '../../test/servers/go-build.ts';
import { startVault } from '../../test/servers/vault.ts';
import { type Manifest, parseManifests } from '../cluster.ts';
import { OperatorProcess } from '../operator.ts';
import { took } from '../screen.ts';
import { DemoVault } from '../vaults.ts';
import type { Stage, Walk } from '../walk.ts';
import { apply } from './apply.ts';

const NAME = 'postgres';
const ENTRY = 'dev-1/postgres';
const EXTERNAL_SECRETS = '/apis/external-secrets.io/v1/namespaces/default/externalsecrets';
const STORE = '/apis/external-secrets.io/v1/namespaces/default/secretstores/vault-backend';
/** The policy in docs/generator.md. */
const POLICY = 'path "secret/data/dev-1/*" { capabilities = ["create", "read", "update"] }';

type WithConditions = KubeObject & { readonly status?: { readonly conditions?: readonly Json[] } };
type Json = Readonly<Record<string, string>>;

export const generatorWalk: Walk = {
  name: 'generator',
  servers: ['vault', 'external-secrets'],
  title: 'The generator: values that Vault does not have yet',

  async check() {
    // Nothing to check: this walk is skipped in a user's cluster.
  },

  async run(stage) {
    const { screen } = stage;
    if (stage.borrowed) {
      screen.note('skipped: the demo starts Vault and External Secrets Operator only beside its own servers');
      return;
    }
    const vault = await servers(stage).catch((error: unknown) => {
      if (!(error instanceof ServerUnavailableError)) throw error;
      screen.warn(`skipped: ${errorText(error)}`);
      return undefined;
    });
    if (vault === undefined) return;
    await missing(stage, vault);
    await deleted(stage, vault);
  },

  async leave() {
    // Nothing to prepare: ESO and Vault run on.
  },

  async clean() {
    // Nothing to delete: this walk is skipped in a user's cluster.
  },
};

/**
 * Starts Vault and ESO. Creates a SecretStore; its token has permission to write entries below `secret/dev-1/` only.
 */
async function servers(stage: Stage): Promise<DemoVault> {
  const { screen, cluster, ground, resources, until } = stage;
  await stage.built('vault', 'external-secrets');
  screen.progress('starting External Secrets Operator');
  const startedAt = performance.now();
  const vault = new DemoVault(resources.use(await startVault()));
  const crds = parseManifests(await esoCrds());
  for (const crd of crds) await cluster.create(crd);
  for (const plural of ['externalsecrets', 'secretstores', 'clustersecretstores']) {
    await until(`the API of ${plural}`, async () => await cluster.find(`/apis/external-secrets.io/v1/${plural}`));
  }
  const { kubeconfigPath } = ground;
  if (kubeconfigPath === undefined) throw new Error('the demo has no kubeconfig of its own');
  const eso = await startExternalSecrets({ kubeconfigPath });
  resources.defer(async () => await eso.stop());
  const { version } = serverRecipe('external-secrets');
  screen.done(`External Secrets Operator ${version} and Vault`, took(performance.now() - startedAt));
  screen.blank();
  screen.command(`keyferry generator --kubeconfig ${kubeconfigPath}`);
  resources.use(await OperatorProcess.start(ground, ['generator'], 'generator'));
  screen.blank();
  const token = await vault.token('generator', POLICY);
  screen.command('kubectl create secret generic vault-token --from-literal=vault-token=…');
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'vault-token', namespace: 'default' } };
  await cluster.create({ ...secret, stringData: { 'vault-token': token } } as unknown as Manifest);
  screen.output(['secret/vault-token created']);
  await apply(stage, 'secret-store.yaml', { VAULT_ADDR: vault.addr });
  // If ESO reads an ExternalSecret before its SecretStore is ready, it tries again only after some time.
  await until('the SecretStore to be ready', async () => await isReady(stage, STORE));
  return vault;
}

async function missing(stage: Stage, vault: DemoVault): Promise<void> {
  const { screen } = stage;
  await stage.section('The entry does not exist');
  const [startedAt = 0] = await apply(stage, 'postgres.yaml');
  const readyAt = await ready(stage);
  await show(stage, vault);
  screen.done(`Secret ${NAME}`, `there ${took(readyAt - startedAt)} after the ExternalSecret`);
}

async function deleted(stage: Stage, vault: DemoVault): Promise<void> {
  const { screen, until } = stage;
  await stage.section('Somebody deletes the entry');
  const before = await vault.createdTime(ENTRY);
  screen.command(`vault kv metadata delete secret/${ENTRY}`);
  await vault.server.request('DELETE', `secret/metadata/${ENTRY}`);
  screen.output(['Success! Data deleted']);
  screen.blank();
  const madeAt = await until('a new value', async () => {
    const time = await vault.createdTime(ENTRY);
    return time !== undefined && time !== before ? performance.now() : undefined;
  });
  const readyAt = await ready(stage);
  await show(stage, vault);
  screen.done(`secret/${ENTRY}`, 'made again after External Secrets Operator looked the next time (every 5 s)');
  screen.done(`Secret ${NAME}`, `has the new value ${took(Math.max(0, readyAt - madeAt))} later`);
}

/** Waits until ESO has read the values from Vault. @returns the time when it had, as `performance.now()` */
async function ready(stage: Stage): Promise<number> {
  const { until } = stage;
  return await until(`the ExternalSecret ${NAME} to be ready`, async () => {
    return (await isReady(stage, `${EXTERNAL_SECRETS}/${NAME}`)) === true ? performance.now() : undefined;
  });
}

/** Whether the condition Ready of an object is True. @returns `undefined` instead of false, because `until` needs it */
async function isReady({ cluster }: Stage, path: string): Promise<true | undefined> {
  const object: WithConditions | undefined = await cluster.find(path);
  const condition = object?.status?.conditions?.find(({ type }) => type === 'Ready');
  return condition?.['status'] === 'True' ? true : undefined;
}

/** Prints the ExternalSecret, and keys and version of the entry. Prints no value. */
async function show({ screen, cluster }: Stage, vault: DemoVault): Promise<void> {
  screen.command(`kubectl get externalsecrets ${NAME}`);
  screen.output(await cluster.table(EXTERNAL_SECRETS, { query: { fieldSelector: `metadata.name=${NAME}` } }));
  screen.blank();
  const look = await vault.look(ENTRY);
  screen.command(`vault kv get -format=json secret/${ENTRY} | jq -c '[.data.metadata.version, (.data.data | keys)]'`);
  screen.output([JSON.stringify([look?.version, look?.keys])]);
  screen.blank();
}
