/**
 * Two real clusters: a tenant's and the management cluster. Each has etcd, kube-apiserver and kube-controller-manager,
 * RBAC, and an audit log. The programs use a fault proxy before each API server; tests use the servers directly.
 */
import { startControlPlane } from '../servers/control-plane.ts';
import type { ControlPlane, ControlPlaneOptions } from '../servers/control-plane.ts';
import { startFaultProxy } from '../servers/fault-proxy.ts';
import type { FaultProxy } from '../servers/fault-proxy.ts';

export interface PairOptions {
  /**
   * Manifests for both clusters, such as CRDs. A kind that is added later is unknown to the garbage collector for half
   * a minute.
   */
  readonly manifests?: string;
  /**
   * Whether a controller manager runs; true by default. Without it, no garbage is collected, and no namespace is
   * deleted.
   */
  readonly controllerManager?: boolean;
  readonly tenant?: ControlPlaneOptions;
  readonly management?: ControlPlaneOptions;
}

export class ClusterPair implements AsyncDisposable {
  readonly tenant: ControlPlane;
  readonly management: ControlPlane;
  readonly #proxies: FaultProxy[] = [];

  private constructor(tenant: ControlPlane, management: ControlPlane) {
    this.tenant = tenant;
    this.management = management;
  }

  /** Starts both clusters at the same time. */
  static async start(options: PairOptions = {}): Promise<ClusterPair> {
    const starts = [options.tenant, options.management].map((one) => startPlane(options, one));
    const results = await Promise.allSettled(starts);
    const planes = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    const [tenant, management] = planes;
    if (tenant !== undefined && management !== undefined) return new ClusterPair(tenant, management);
    await Promise.all(planes.map((plane) => plane.stop()));
    throw results.find((result) => result.status === 'rejected')?.reason;
  }

  /** Starts a fault proxy before one of the clusters. */
  async proxy(plane: ControlPlane): Promise<FaultProxy> {
    const proxy = await startFaultProxy({ upstream: plane.url, upstreamCaPem: plane.caPem });
    this.#proxies.push(proxy);
    return proxy;
  }

  /** Stops all servers. */
  async stop(): Promise<void> {
    await Promise.all(this.#proxies.map((proxy) => proxy.stop()));
    await Promise.all([this.tenant.stop(), this.management.stop()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

async function startPlane(pair: PairOptions, options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const plane = await startControlPlane({ audit: true, ...options, controllerManager: false });
  try {
    await plane.api.apply(pair.manifests ?? '');
    if (options.controllerManager ?? pair.controllerManager ?? true) await plane.startControllerManager();
    return plane;
  } catch (error) {
    await plane.stop();
    throw error;
  }
}
