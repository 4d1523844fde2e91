/** Gets the cluster on which the demo runs: local servers that the demo starts, or the cluster of a kubeconfig. */
import { readCrds } from '../scripts/crd/read-crds.ts';
import { HttpKubeApi } from '../src/kube/http.ts';
import { loadKubeconfig } from '../src/kube/auth/kubeconfig.ts';
import { isForbidden } from '../src/kube/errors.ts';
import { type ServerName, serverRecipe } from '../test/servers/catalogue.ts';
import { type ControlPlane, startControlPlane } from '../test/servers/control-plane.ts';
import { Reaper } from '../test/servers/reaper.ts';
import { waitFor } from '../test/support/wait-for.ts';
import type { Builds } from './builds.ts';
import { type DemoCluster, type Manifest, parseManifests } from './cluster.ts';
import { type Screen, took } from './screen.ts';

export interface Ground extends AsyncDisposable {
  readonly kubeconfigPath: string | undefined;
  readonly context: string | undefined;
  readonly api: HttpKubeApi;
  /** A folder for logs. The demo deletes it at its end. */
  readonly folder: string;
  /**
   * Whether the cluster is the user's. If so, it runs on after the demo, and the demo must delete its objects there.
   */
  readonly borrowed: boolean;
}

/**
 * Builds and starts etcd and kube-apiserver. kube-controller-manager starts later, in the background, because no part
 * of the demo needs it.
 * @param laterServers servers to build at low priority meanwhile, in this order
 * @throws ServerUnavailableError that says what is missing to build a server
 */
export async function ownGround(
  screen: Screen,
  signal: AbortSignal,
  builds: Builds,
  laterServers: readonly ServerName[],
): Promise<Ground> {
  const background = new AbortController();
  const startedAt = performance.now();
  await builds.ready(['etcd', 'kube-apiserver'], signal);
  screen.progress(`starting etcd and kube-apiserver ${serverRecipe('kube-apiserver').version}`);
  const plane = await startControlPlane({
    controllerManager: false,
    own: true,
    signal: AbortSignal.any([signal, background.signal]),
  });
  const stopped = (): boolean => signal.aborted || background.signal.aborted;
  screen.done(`etcd ${serverRecipe('etcd').version}`);
  screen.done(
    `kube-apiserver ${serverRecipe('kube-apiserver').version}`,
    `at ${plane.url}, ${took(performance.now() - startedAt)}`,
  );
  builds.start(laterServers, { lowPriority: true });
  const third = startThird(plane, builds).catch((error: unknown) => {
    if (!stopped())
      screen.warn(`no kube-controller-manager: ${error instanceof Error ? error.message : String(error)}`);
  });
  const api = new HttpKubeApi(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} }));
  return {
    kubeconfigPath: plane.kubeconfigPath,
    context: undefined,
    api,
    folder: plane.folder,
    borrowed: false,
    [Symbol.asyncDispose]: async () => {
      background.abort(new Error('the demo is over'));
      await builds[Symbol.asyncDispose]();
      await api[Symbol.asyncDispose]();
      await third;
      await plane.stop();
    },
  };
}

/** Starts kube-controller-manager after its build. Does nothing if it does not exist and is not being built. */
async function startThird(plane: ControlPlane, builds: Builds): Promise<void> {
  if (await builds.finished('kube-controller-manager')) await plane.startControllerManager();
}

/**
 * Connects to the cluster of a kubeconfig.
 * @throws KubeconfigError, ApiError or ConnectionError if the cluster cannot be used
 */
export async function givenGround(
  screen: Screen,
  options: { readonly kubeconfig: string | undefined; readonly context: string | undefined },
  signal: AbortSignal,
): Promise<Ground> {
  const { kubeconfig, context } = options;
  const connection = await loadKubeconfig({ path: kubeconfig, context, env: process.env });
  const api = new HttpKubeApi(connection);
  await api.request({ method: 'GET', path: '/api/v1/namespaces/default', signal });
  screen.done(`cluster ${connection.server.href}`, connection.origin);
  const folder = await Reaper.shared().temporaryFolder('keyferry-demo-');
  return {
    kubeconfigPath: kubeconfig,
    context,
    api,
    folder,
    borrowed: true,
    [Symbol.asyncDispose]: async () => {
      await api[Symbol.asyncDispose]();
      await Reaper.shared().removeFolder(folder);
    },
  };
}

/** Creates those of Keyferry's CRDs that the cluster lacks. @returns the created CRDs, for the cleanup */
export async function installCrds(cluster: DemoCluster, screen: Screen, signal: AbortSignal): Promise<Manifest[]> {
  const made: Manifest[] = [];
  for (const crd of parseManifests(readCrds())) {
    try {
      if ((await cluster.create(crd)) !== undefined) made.push(crd);
    } catch (error) {
      if (!isForbidden(error)) throw error;
      throw new Error(`no permission to create CustomResourceDefinitions in this cluster: ${error.statusMessage}`, {
        cause: error,
      });
    }
    await waitFor(async () => await isServed(cluster, crd), {
      message: `the CRD ${crd.metadata.name} to be established`,
      signal,
    });
  }
  screen.done(made.length > 0 ? 'CustomResourceDefinitions applied' : 'CustomResourceDefinitions already exist');
  return made;
}

/**
 * Whether the API server serves a new CRD: it can list its objects. The CRD's condition Established is not enough,
 * because the server may still answer that its storage is initializing.
 */
async function isServed(cluster: DemoCluster, crd: Manifest): Promise<boolean> {
  const { spec } = crd as Manifest & {
    readonly spec: {
      readonly group: string;
      readonly names: { readonly plural: string };
      readonly versions: readonly { readonly name: string; readonly storage: boolean }[];
    };
  };
  const version = spec.versions.find(({ storage }) => storage)?.name ?? '';
  await cluster.list(`/apis/${spec.group}/${version}/${spec.names.plural}`);
  return true;
}
