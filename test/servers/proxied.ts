/** A fault proxy before an API server, and a kubeconfig for it. */
import type { ControlPlane } from './control-plane.ts';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';

/**
 * Starts a fault proxy before the API server. Stop it after the programs that use it.
 * @param user of the control plane; default `admin`
 * @returns the proxy, and the path of a kubeconfig that leads through it
 */
export async function proxied(
  plane: ControlPlane,
  user = 'admin',
): Promise<{ readonly proxy: FaultProxy; readonly kubeconfig: string }> {
  const proxy = await startFaultProxy({ upstream: plane.url, upstreamCaPem: plane.caPem });
  const token = plane.tokenFor(user);
  return { proxy, kubeconfig: await plane.writeKubeconfig({ server: proxy.url, caPem: proxy.caPem, token }) };
}
