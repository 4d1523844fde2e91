/**
 * Shows SyncSecret: Keyferry copies a certificate from a tenant cluster to a management cluster. The walk starts a
 * second control plane as the management cluster.
 */
import { readCrd } from '../../scripts/crd/read-crds.ts';
import { loadKubeconfig } from '../../src/kube/auth/kubeconfig.ts';
import type { KubeObject } from '../../src/kube/api.ts';
import { HttpKubeApi } from '../../src/kube/http.ts';
import { startControlPlane } from '../../test/servers/control-plane.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { DemoCluster, type Manifest, parseManifests } from '../cluster.ts';
import { OperatorProcess } from '../operator.ts';
import { took } from '../screen.ts';
import type { Stage, Walk } from '../walk.ts';
import { apply } from './apply.ts';

const TENANT = 'production';
const SYNC_SECRETS = '/apis/kubelb.k8c.io/v1alpha1/namespaces';
const ORIGINAL = `${SYNC_SECRETS}/production/syncsecrets/app-tls`;
const COPIES = `${SYNC_SECRETS}/tenant-${TENANT}/syncsecrets`;
const SECRETS = `/api/v1/namespaces/tenant-${TENANT}/secrets`;

type SyncSecret = KubeObject & { readonly status?: { readonly phase?: string } };

export const syncSecretWalk: Walk = {
  name: 'syncsecret',
  servers: [],
  title: 'SyncSecret: from a tenant cluster to a management cluster',

  async check() {
    // Nothing to check: this walk is skipped in a user's cluster.
  },

  async run(stage) {
    const { screen, ground, resources } = stage;
    if (stage.borrowed) {
      screen.note('skipped: it needs two clusters, and starts the second one only beside its own first one');
      return;
    }
    const { management, kubeconfigPath, folder } = await managementCluster(stage);
    screen.blank();
    screen.command(`keyferry syncsecret-manager --kubeconfig ${kubeconfigPath}`);
    const noElection = '--enable-leader-election=false';
    const manager = { kubeconfigPath, context: undefined, folder };
    resources.use(await OperatorProcess.start(manager, ['syncsecret-manager', noElection], 'manager'));
    screen.command(`keyferry syncsecret-ccm --cluster-name ${TENANT} --kubelb-kubeconfig ${kubeconfigPath}`);
    const flags = ['--cluster-name', TENANT, '--kubelb-kubeconfig', kubeconfigPath, noElection];
    resources.use(await OperatorProcess.start(ground, ['syncsecret-ccm', ...flags], 'ccm'));
    await certificate(stage, management);
    await renewal(stage, management);
    await deletion(stage, management);
  },

  async leave() {
    // Nothing to prepare: both clusters and all programs run on.
  },

  async clean() {
    // Nothing to delete: this walk is skipped in a user's cluster.
  },
};

interface Management {
  readonly management: DemoCluster;
  readonly kubeconfigPath: string;
  readonly folder: string;
}

async function managementCluster({ screen, signal, resources }: Stage): Promise<Management> {
  screen.progress('starting the management cluster');
  const startedAt = performance.now();
  const plane = await startControlPlane({ controllerManager: false, own: true, signal });
  resources.defer(async () => {
    await plane.stop();
  });
  const api = resources.use(new HttpKubeApi(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} })));
  const management = new DemoCluster(api, signal, screen.tableWidth);
  for (const crd of parseManifests(readCrd('syncsecrets'))) await management.create(crd);
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: `tenant-${TENANT}` } };
  await management.create(namespace as unknown as Manifest);
  await waitFor(async () => (await management.list(COPIES)).length === 0, {
    message: 'the CRD in the management cluster',
    signal,
  });
  screen.done('the management cluster', `at ${plane.url}, ${took(performance.now() - startedAt)}`);
  return { management, kubeconfigPath: plane.kubeconfigPath, folder: plane.folder };
}

async function certificate(stage: Stage, management: DemoCluster): Promise<void> {
  const { screen, cluster } = stage;
  await stage.section('A certificate for the ingress in the management cluster');
  const times = await apply(stage, 'app-tls.yaml');
  const startedAt = times.at(-1) ?? 0;
  const arrivedAt = await arrival(stage, management, 'the Secret in the management cluster');
  await phase(stage, 'Synced');
  screen.command('kubectl get syncsecrets -n production                  # in the tenant cluster');
  screen.output(await cluster.table(`${SYNC_SECRETS}/production/syncsecrets`));
  screen.command(`kubectl get syncsecrets,secrets -n tenant-${TENANT}    # in the management cluster`);
  screen.output(await management.table(COPIES));
  screen.output(await management.table(SECRETS));
  screen.blank();
  screen.done('the Secret', `${took(arrivedAt - startedAt)} after the SyncSecret was applied`);
}

async function renewal(stage: Stage, management: DemoCluster): Promise<void> {
  const { screen, cluster } = stage;
  await stage.section('The certificate is renewed');
  const [before] = await management.list(SECRETS);
  const patch = { stringData: { 'tls.crt': 'renewed', 'tls.key': 'renewed' } };
  screen.command(`kubectl patch syncsecret app-tls -n production --type merge -p '${JSON.stringify(patch)}'`);
  const changedAt = performance.now();
  await cluster.mergePatch(ORIGINAL, patch);
  screen.output(['syncsecret.kubelb.k8c.io/app-tls patched']);
  screen.blank();
  const version = before?.metadata.resourceVersion;
  const arrivedAt = await arrival(stage, management, 'the new certificate', (secret) => {
    return secret.metadata.resourceVersion !== version;
  });
  screen.done('the Secret', `updated ${took(arrivedAt - changedAt)} after the change`);
}

async function deletion(stage: Stage, management: DemoCluster): Promise<void> {
  const { screen, cluster, until } = stage;
  await stage.section('The SyncSecret is deleted');
  screen.command('kubectl delete syncsecret app-tls -n production');
  const deletedAt = performance.now();
  await cluster.delete(ORIGINAL);
  const goneAt = await until('the Secret and both SyncSecrets to be gone', async () => {
    const left = [...(await management.list(SECRETS)), ...(await management.list(COPIES))].length;
    return left === 0 && (await cluster.find(ORIGINAL)) === undefined ? performance.now() : undefined;
  });
  screen.output(['syncsecret.kubelb.k8c.io "app-tls" deleted']);
  screen.blank();
  screen.done('nothing is left in either cluster', took(goneAt - deletedAt));
}

/**
 * Waits until a Secret of the tenant is in the management cluster.
 * @returns the time when it was found, as `performance.now()`
 */
async function arrival(
  { until }: Stage,
  management: DemoCluster,
  what: string,
  isIt: (secret: KubeObject) => boolean = () => true,
): Promise<number> {
  return await until(what, async () => {
    return (await management.list(SECRETS)).some(isIt) ? performance.now() : undefined;
  });
}

async function phase({ cluster, until }: Stage, wanted: string): Promise<void> {
  await until(`the phase ${wanted}`, async () => {
    const object: SyncSecret | undefined = await cluster.find(ORIGINAL);
    return object?.status?.phase === wanted ? true : undefined;
  });
}
