/** Stops a leader's renewals of its Lease, at a time that the test knows. */
import type { FaultProxy } from '../servers/fault-proxy.ts';
import { waitFor } from './wait-for.ts';

/**
 * Stalls all requests for Leases immediately after a renewal. So the leader's remaining time begins at a known moment,
 * even on a busy machine.
 */
export async function stopRenewals(proxy: FaultProxy): Promise<void> {
  const from = performance.now();
  const isRenewed = (): boolean =>
    proxy.requests.some(
      ({ at, method, url, status, endedAt }) =>
        at >= from && method !== 'GET' && url.includes('/leases/') && status === 200 && endedAt !== undefined,
    );
  await waitFor(isRenewed, { intervalMs: 5, message: 'a renewal of the Lease' });
  proxy.rule({ match: { path: '/leases/' }, fault: { kind: 'stall' } });
}
