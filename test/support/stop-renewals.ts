/** The end of a leader's renewals, at a time that a test knows. */
import type { FaultProxy } from '../servers/fault-proxy.ts';
import { waitFor } from './wait-for.ts';

/** Stalls the requests for Leases right after a renewal. So the time of the leader has just begun, also on a busy machine. */
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
