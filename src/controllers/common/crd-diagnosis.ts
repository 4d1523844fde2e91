/**
 * Finds out whether the CRD of a controller's rules is missing or broken. At the start, `apiInstalled` waits until the
 * CRD is installed. Later, when the rules cannot be listed, `CrdDiagnosis` looks for these causes:
 *
 * - The CRD is not installed, or was deleted: the watch gets 404.
 * - The CRD came from an original's Helm chart, and its conversion webhook is gone. A list gets 500 with the webhook's
 *   error, and a watch 429 "storage is (re)initializing". If the 429 lacks the webhook's error, a GET shows the error.
 */
import type { Kind } from '../../copy/model/kind.ts';
import type { KubeApi } from '../../kube/api.ts';
import { ApiError, isNotFound, isStorageStarting, retryAfterMs } from '../../kube/errors.ts';
import { pathIn, type WatchDiagnosis } from '../../kube/watch/watch-group.ts';
import type { Log } from '../../observe/log.ts';
import { sleep } from '../../runtime/abort.ts';
import { Backoff } from '../../runtime/queue/backoff.ts';
import { command } from '../../runtime/text/command.ts';

const PROBE_TIMEOUT_MS = 10_000;

type Cause = 'missing' | 'webhook';

/** How the user can fix each cause; `undefined`: there is no advice. */
export type CrdAdvice = Readonly<Record<Cause, string | undefined>>;

/** The advice for a CRD that is part of Keyferry. @param crd `<plural>.<group>` */
export function crdAdvice(crd: string): Readonly<Record<Cause, string>> {
  const install = `${command('crds')} | kubectl apply --server-side -f -`;
  return {
    missing: `the CRD ${crd} is not installed: run \`${install}\``,
    webhook:
      `the CRD ${crd} converts objects with a webhook that does not answer: run \`kubectl patch crd ${crd} --type json ` +
      `-p '[{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]'\`, then \`${install}\``,
  };
}

export interface CrdDiagnosisOptions {
  readonly api: KubeApi;
  /** The kind of the rules. */
  readonly kind: Pick<Kind, 'groupPath' | 'plural'>;
  readonly advice: CrdAdvice;
  /** Set if the process is to be ready even without the CRD. */
  readonly isOptional: boolean;
  /** Namespace of the GET that looks for the cause; `undefined`: the GET reads from the whole cluster. */
  readonly namespace?: string | undefined;
  /** Set if no other controller runs. The start then always waits for the list of these rules. */
  readonly isAlone: boolean;
  /** Called each time the watch fails because the CRD is missing. */
  readonly onMissing?: () => void;
}

export class CrdDiagnosis implements WatchDiagnosis {
  readonly #options: CrdDiagnosisOptions;
  readonly #found = Promise.withResolvers<void>();
  /** Cause of the last failure of the watch; `undefined`: the CRD is not the cause. */
  #cause: Cause | undefined;
  #isProbing = false;

  constructor(options: CrdDiagnosisOptions) {
    this.#options = options;
  }

  get advice(): string | undefined {
    return this.#cause && this.#options.advice[this.#cause];
  }

  /** If an optional CRD is missing, the process stays ready, as at a start without that CRD. */
  get isExcused(): boolean {
    return this.#options.isOptional && this.#cause === 'missing';
  }

  get found(): Promise<void> | undefined {
    return this.#options.isAlone ? undefined : this.#found.promise;
  }

  failed(error: unknown): boolean {
    const before = this.#cause;
    const cause = causeOf(error);
    // A 429 without the webhook's error keeps the known cause until the probe has found the present one.
    if (cause === undefined && isStorageStarting(error)) void this.#probe();
    else this.#set(cause);
    if (cause === 'missing') this.#options.onMissing?.();
    return before === 'missing' && this.#cause === 'missing';
  }

  /** Requests one object, because the error of this GET shows the cause. Never rejects. */
  async #probe(): Promise<void> {
    if (this.#isProbing) return;
    this.#isProbing = true;
    try {
      const { api, kind, namespace } = this.#options;
      const whole = `${kind.groupPath}/${kind.plural}`;
      const path = namespace === undefined ? whole : pathIn(whole, namespace);
      await api.request({ method: 'GET', path, query: { limit: 1 }, timeoutMs: PROBE_TIMEOUT_MS });
      this.#set(undefined);
    } catch (error) {
      this.#set(causeOf(error));
    } finally {
      this.#isProbing = false;
    }
  }

  #set(cause: Cause | undefined): void {
    this.#cause = cause;
    if (cause !== undefined) this.#found.resolve();
  }
}

function causeOf(error: unknown): Cause | undefined {
  if (!(error instanceof ApiError)) return undefined;
  if (error.status === 404) return 'missing';
  return /conversion webhook for \S+, Kind=\S+ failed/.test(error.statusMessage) ? 'webhook' : undefined;
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
  readonly log: Log;
}

/** Settles when the server serves the API. @throws the reason of `signal` */
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
