/** Stops the renewals of a leader at a time that the test knows. */
import type { FaultProxy } from '../servers/fault-proxy.ts';
import { waitFor } from './wait-for.ts';

/**
 * Stalls the requests for Leases right after a renewal. So the leader's remaining time begins now, also on a busy
 * machine.
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
