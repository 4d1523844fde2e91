/**
 * The API of a controller's rules comes from a CRD, which may be missing. At the start, `apiInstalled` waits until it is
 * installed. Later, the error of the watch says what is wrong, with the advice from here (`CustomApi`).
 */
import type { KubeApi } from '../../kube/api.ts';
import { isNotFound } from '../../kube/errors.ts';
import type { Log } from '../../observe/log.ts';
import { sleep } from '../../runtime/abort.ts';
import { Backoff } from '../../runtime/queue/backoff.ts';
import { command } from '../../runtime/text/command.ts';

/** The advice for a CRD that is part of Keyferry: if it is missing, and if its watch fails. @param crd `<plural>.<group>` */
export function crdAdvice(crd: string): { readonly missing: string; readonly watch: string } {
  const install = `run \`${command('crds')} | kubectl apply --server-side -f -\``;
  return {
    missing: `the CRD ${crd} is not installed: ${install}`,
    // The CRD of an original's Helm chart names a conversion webhook, which may be gone.
    watch:
      `if the CRD ${crd} is not installed, ${install}; if it converts objects with a webhook that does not answer, first run ` +
      `\`kubectl patch crd ${crd} --type json -p '[{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]'\``,
  };
}

/** Pause between two requests while the API is not installed, ms. So Keyferry finds a new API within 5 s. */
const INTERVAL_MS = 4000;
/** Pause after the first failed request, ms. It grows with each failure, up to `INTERVAL_MS`. */
const RETRY_MS = 1000;

export interface AwaitedApi {
  readonly api: KubeApi;
  /** `/apis/<group>/<version>` */
  readonly path: string;
  /** Name of the controller for the log. */
  readonly controller: string;
  /** Advice for the log: how to install the API. */
  readonly notInstalled: string;
  /** Most clusters do not have the API, so the log line about a missing API has the level info, not warn. */
  readonly isOptional?: boolean;
  /** Called when the server says that it does not serve the API. */
  readonly onMissing: () => void;
  readonly log: Log;
}

/** Settles when the server serves the API. @throws the reason of `signal` */
export async function apiInstalled(
  { api, path, controller, notInstalled, isOptional = false, onMissing, log }: AwaitedApi,
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
      if (missing) {
        backoff.reset();
        onMissing();
      }
      await sleep(missing ? INTERVAL_MS : backoff.next(error), signal);
    }
  }
}
