/** Checks whether a server serves calls: by `sys/health`, which needs no token and no mount. */
import { withTimeout } from '../../runtime/abort.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { VaultCall } from './client.ts';
import type { Transport } from './transport.ts';

export interface HealthOptions {
  readonly transport: Transport;
  readonly addr: string;
  readonly clock: Clock;
  readonly limitMs: number;
  readonly onCall?: ((call: VaultCall) => void) | undefined;
}

/** Standbys count as serving: they forward calls. */
const PATH = '/v1/sys/health?standbyok=true&perfstandbyok=true';
/** A standby of disaster recovery, not initialized, sealed; or a proxy without a server. */
const DOWN_STATUS: ReadonlySet<number> = new Set([472, 473, 501, 502, 503, 504]);

/** Whether the server serves calls; false without an answer. Never rejects. */
export async function isServing({ transport, addr, clock, limitMs, onCall }: HealthOptions): Promise<boolean> {
  const call = { method: 'GET', path: PATH, headers: [], repeatable: true };
  let status: number | undefined;
  try {
    const limit = { what: 'the health check', limitMs, clock };
    ({ status } = await withTimeout((signal) => transport.send({ ...call, signal }), limit));
    return !DOWN_STATUS.has(status);
  } catch {
    // The error of the call that caused this check has the details.
    return false;
  } finally {
    onCall?.({ addr, method: 'GET', path: 'sys/health', status });
  }
}
