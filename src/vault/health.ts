/** Checks whether a server serves calls: by `sys/health`, which needs no token and no mount. */
import type { Clock } from '../runtime/clock.ts';
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
  const limit = new AbortController();
  const timer = clock.setTimeout(() => {
    limit.abort();
  }, limitMs);
  const started = clock.monotonic();
  let status: number | undefined;
  try {
    const call = { method: 'GET', path: PATH, headers: [], signal: limit.signal, repeatable: true };
    ({ status } = await transport.send(call));
    return !DOWN_STATUS.has(status);
  } catch {
    // The error of the call that caused this check has the details.
    return false;
  } finally {
    timer.cancel();
    const durationMs = clock.monotonic() - started;
    const error = status === undefined ? 'connection' : undefined;
    onCall?.({ addr, method: 'GET', path: 'sys/health', status, error, durationMs });
  }
}
