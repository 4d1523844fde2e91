/** Starts a fault proxy in front of an API server, and writes a kubeconfig for it. */
import type { ControlPlane } from './control-plane.ts';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';

/**
 * Starts a fault proxy in front of the API server. Stop the proxy after the programs that use it.
 * @param user the user in the kubeconfig. Default: `admin`
 * @returns the proxy, and the path of the kubeconfig, which leads to the proxy
 */
export async function proxied(
  plane: ControlPlane,
  user = 'admin',
): Promise<{ readonly proxy: FaultProxy; readonly kubeconfig: string }> {
  const proxy = await startFaultProxy({ upstream: plane.url, upstreamCaPem: plane.caPem });
  const token = plane.tokenFor(user);
  return { proxy, kubeconfig: await plane.writeKubeconfig({ server: proxy.url, caPem: proxy.caPem, token }) };
}
