/**
 * Starts two clusters for SyncSecret and prepares them as a user does: both get the CRD and the permissions of
 * `deploy/`. Each program gets a kubeconfig with the token of its ServiceAccount. Programs connect through fault
 * proxies only.
 */
import type { ControlPlane } from '../servers/control-plane.ts';
import type { FaultProxy } from '../servers/fault-proxy.ts';
import { ClusterPair } from './cluster-pair.ts';
import type { PairOptions } from './cluster-pair.ts';
import { Keyferry } from './keyferry.ts';
import type { KeyferryOptions } from './keyferry.ts';
import { serviceAccountUser } from './service-account.ts';
import {
  CCM_ACCOUNT,
  HOME,
  installCcm,
  installManager,
  installTenant,
  MANAGER_ACCOUNT,
} from './sync-secret-install.ts';

/** A tenant, as the management cluster knows it. */
export interface Tenant {
  /** The value for --cluster-name. */
  readonly name: string;
  /** The tenant's namespace in the management cluster: `tenant-NAME`. */
  readonly namespace: string;
  /** The user to whom the token belongs, in the management cluster. */
  readonly user: string;
  readonly token: string;
  /**
   * Path of a kubeconfig with the token for the management cluster. It leads through the proxy `link`. Tests may write
   * another file there.
   */
  readonly kubeconfig: string;
}

/**
 * How a program is started. By default, with the original's command and flags; with `inRun`, as a controller of
 * `keyferry run`.
 */
export interface ProgramOptions extends Partial<KeyferryOptions> {
  readonly inRun?: boolean;
}

export class SyncSecretClusters implements AsyncDisposable {
  readonly tenantPlane: ControlPlane;
  readonly managementPlane: ControlPlane;
  /** The proxy between CCM and management cluster. */
  readonly link: FaultProxy;
  /** The proxy between CCM and tenant cluster. */
  readonly tenantProxy: FaultProxy;
  /** The proxy between manager and management cluster. */
  readonly managerProxy: FaultProxy;
  readonly ccmKubeconfig: string;
  readonly managerKubeconfig: string;
  readonly #pair: ClusterPair;
  #tenants = 0;

  private constructor(
    pair: ClusterPair,
    proxies: Pick<SyncSecretClusters, 'link' | 'tenantProxy' | 'managerProxy'>,
    kubeconfigs: Pick<SyncSecretClusters, 'ccmKubeconfig' | 'managerKubeconfig'>,
  ) {
    this.#pair = pair;
    this.tenantPlane = pair.tenant;
    this.managementPlane = pair.management;
    this.link = proxies.link;
    this.tenantProxy = proxies.tenantProxy;
    this.managerProxy = proxies.managerProxy;
    this.ccmKubeconfig = kubeconfigs.ccmKubeconfig;
    this.managerKubeconfig = kubeconfigs.managerKubeconfig;
  }

  /** Starts and prepares both clusters. They have no tenant yet. */
  static async start(options: PairOptions = {}): Promise<SyncSecretClusters> {
    const pair = await ClusterPair.start(options);
    try {
      const { tenant, management } = pair;
      const [ccmToken, managerToken] = await Promise.all([installCcm(tenant), installManager(management)]);
      const [link, tenantProxy, managerProxy] = await Promise.all([
        pair.proxy(management),
        pair.proxy(tenant),
        pair.proxy(management),
      ]);
      return new SyncSecretClusters(
        pair,
        { link, tenantProxy, managerProxy },
        {
          ccmKubeconfig: await kubeconfig(tenant, tenantProxy, ccmToken),
          managerKubeconfig: await kubeconfig(management, managerProxy, managerToken),
        },
      );
    } catch (error) {
      await pair.stop();
      throw error;
    }
  }

  /** The user name of the CCM in the tenant cluster. */
  get ccmUser(): string {
    return serviceAccountUser(HOME, CCM_ACCOUNT);
  }

  get managerUser(): string {
    return serviceAccountUser(HOME, MANAGER_ACCOUNT);
  }

  /** Creates a tenant in the management cluster. Without `name`, it gets a name that is not in use. */
  async addTenant(name = `number-${(this.#tenants += 1)}`): Promise<Tenant> {
    const namespace = `tenant-${name}`;
    const token = await installTenant(this.managementPlane, namespace);
    return {
      name,
      namespace,
      user: serviceAccountUser(namespace, CCM_ACCOUNT),
      token,
      kubeconfig: await kubeconfig(this.managementPlane, this.link, token),
    };
  }

  /** Starts the CCM of a tenant, without leader election. */
  ccm(tenant: Tenant, { inRun = false, args = [], ...options }: ProgramOptions = {}): Promise<Keyferry> {
    const own = inRun
      ? [
          '--controllers=syncsecret-ccm',
          `--syncsecret-cluster-name=${tenant.name}`,
          `--syncsecret-kubelb-kubeconfig=${tenant.kubeconfig}`,
        ]
      : [`--cluster-name=${tenant.name}`, `--kubelb-kubeconfig=${tenant.kubeconfig}`, '--enable-leader-election=false'];
    return Keyferry.start({
      command: inRun ? 'run' : 'syncsecret-ccm',
      kubeconfig: this.ccmKubeconfig,
      args: [...own, ...args],
      ...options,
    });
  }

  /** Starts the manager, without leader election. */
  manager({ inRun = false, args = [], ...options }: ProgramOptions = {}): Promise<Keyferry> {
    const own = inRun ? ['--controllers=syncsecret-manager'] : ['--enable-leader-election=false'];
    return Keyferry.start({
      command: inRun ? 'run' : 'syncsecret-manager',
      kubeconfig: this.managerKubeconfig,
      args: [...own, ...args],
      ...options,
    });
  }

  async stop(): Promise<void> {
    await this.#pair.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

function kubeconfig(plane: ControlPlane, proxy: FaultProxy, token: string): Promise<string> {
  return plane.writeKubeconfig({ server: proxy.url, caPem: proxy.caPem, token });
}
