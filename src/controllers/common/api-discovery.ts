/** Waits for the API of a controller's rules: its CRD may be installed at any time. */
import type { KubeApi } from '../../kube/api.ts';
import { isNotFound, retryAfterMs } from '../../kube/errors.ts';
import type { Log } from '../../observe/log.ts';
import { sleep } from '../../runtime/abort.ts';
import { Backoff } from '../../runtime/queue/backoff.ts';

/** Between two requests while the API is not installed, ms. An installation is noticed within 5 s. */
const INTERVAL_MS = 4000;
/** First wait after a request that failed, ms; it grows to the above. */
const RETRY_MS = 1000;

export interface AwaitedApi {
  readonly api: KubeApi;
  /** `/apis/<group>/<version>` */
  readonly path: string;
  /** For the log. */
  readonly controller: string;
  /** For the log: how to install the API. */
  readonly notInstalled: string;
  /** Most clusters do not have it. */
  readonly isOptional?: boolean;
  readonly log: Log;
}

/** Settles when the API is served. @throws the reason of `signal` */
export async function apiInstalled(
  { api, path, controller, notInstalled, isOptional = false, log }: AwaitedApi,
  signal: AbortSignal,
): Promise<void> {
  const backoff = new Backoff({ baseMs: RETRY_MS, maxMs: INTERVAL_MS });
  for (let logged: string | undefined; ;) {
    try {
      await api.request({ method: 'GET', path, signal });
      return;
    } catch (error) {
      signal.throwIfAborted();
      const missing = isNotFound(error);
      const problem = missing ? 'missing' : String(error);
      if (logged !== problem) {
        const fields = { controller, path, ...(missing ? { advice: notInstalled } : { error }) };
        const level = missing && isOptional ? 'info' : 'warn';
        log[level](missing ? 'API is not installed, waiting for it' : 'API discovery failed, retrying', fields);
        logged = problem;
      }
      if (missing) backoff.reset();
      await sleep(missing ? INTERVAL_MS : backoff.next(retryAfterMs(error)), signal);
    }
  }
}
