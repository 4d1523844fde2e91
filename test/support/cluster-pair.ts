/**
 * Starts two real clusters: a tenant's and the management cluster. Each has etcd, kube-apiserver, the CRDs, RBAC and an
 * audit log, but no kube-controller-manager: no garbage is collected, and a deleted namespace stays. Programs under test
 * connect through fault proxies, tests directly.
 */
import { startControlPlane } from '../servers/control-plane.ts';
import type { ControlPlane, ControlPlaneOptions } from '../servers/control-plane.ts';
import { startFaultProxy } from '../servers/fault-proxy.ts';
import type { FaultProxy } from '../servers/fault-proxy.ts';

export interface PairOptions {
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
    const starts = [options.tenant, options.management].map((one) =>
      startControlPlane({ audit: true, crds: true, controllerManager: false, ...one }),
    );
    const results = await Promise.allSettled(starts);
    const planes = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    const [tenant, management] = planes;
    if (tenant !== undefined && management !== undefined) return new ClusterPair(tenant, management);
    await Promise.all(planes.map((plane) => plane.stop()));
    throw results.find((result) => result.status === 'rejected')?.reason;
  }

  /** Starts a fault proxy in front of one of the clusters. `stop` stops it, too. */
  async proxy(plane: ControlPlane): Promise<FaultProxy> {
    const proxy = await startFaultProxy({ upstream: plane.url, upstreamCaPem: plane.caPem });
    this.#proxies.push(proxy);
    return proxy;
  }

  /** Stops proxies and clusters. */
  async stop(): Promise<void> {
    await Promise.all(this.#proxies.map((proxy) => proxy.stop()));
    await Promise.all([this.tenant.stop(), this.management.stop()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}
