/**
 * Diagnoses why the SecretMirrors cannot be listed where their CustomResourceDefinition is the cause:
 *
 * - It is not installed, or was deleted: the watch gets 404.
 * - It converts objects through the webhook of the original's Helm chart, which does not run any more: a list gets 500 with the webhook's
 *   error, and a watch 429 "storage is (re)initializing". Some servers leave the reason out of the 429; the answer to a GET has it.
 */
import type { WatchDiagnosis } from '../../copy/cluster/cluster.ts';
import type { KubeApi } from '../../kube/api.ts';
import { ApiError, isStorageStarting } from '../../kube/errors.ts';
import { MIRRORS_API_PATH, MIRRORS_GROUP, SECRET_MIRROR_PLURAL } from './api.ts';

const CRD = `${SECRET_MIRROR_PLURAL}.${MIRRORS_GROUP}`;

/** What to do where the CRD is missing. */
export const NOT_INSTALLED = `the CRD ${CRD} is not installed: run keyferry crds | kubectl apply --server-side -f -`;

/** What to do where the CRD has the original's webhook. */
export const CONVERTED_BY_WEBHOOK =
  `the CRD ${CRD} converts objects with a webhook that does not answer: run kubectl patch crd ${CRD} --type json ` +
  `-p '[{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]', then keyferry crds | kubectl apply --server-side -f -`;

const LOOK_TIMEOUT_MS = 10_000;

type Cause = 'missing' | 'webhook';

export interface CrdDiagnosisOptions {
  readonly api: KubeApi;
  /** The process is ready without the CRD. */
  readonly isOptional: boolean;
  /** No other controller runs, so that nothing can start without the mirrors. */
  readonly isAlone: boolean;
}

export class CrdDiagnosis implements WatchDiagnosis {
  readonly #options: CrdDiagnosisOptions;
  readonly #found = Promise.withResolvers<void>();
  /** Of the last failure of the watch; `undefined`: the CRD is not the cause. */
  #cause: Cause | undefined;
  #looking = false;

  constructor(options: CrdDiagnosisOptions) {
    this.#options = options;
  }

  get advice(): string | undefined {
    if (this.#cause === undefined) return undefined;
    return this.#cause === 'missing' ? NOT_INSTALLED : CONVERTED_BY_WEBHOOK;
  }

  /** As at a start without the CRD. */
  get isExcused(): boolean {
    return this.#options.isOptional && this.#cause === 'missing';
  }

  get found(): Promise<void> | undefined {
    return this.#options.isAlone ? undefined : this.#found.promise;
  }

  failed(error: unknown): boolean {
    const before = this.#cause;
    const cause = causeOf(error);
    // A 429 without a reason is a sign of the webhook that was found before, until the look shows another cause.
    if (cause === undefined && isStorageStarting(error)) void this.#look();
    else this.#set(cause);
    return before === 'missing' && this.#cause === 'missing';
  }

  /** Reads one object, for the error. Never rejects. */
  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      const path = `${MIRRORS_API_PATH}/${SECRET_MIRROR_PLURAL}`;
      await this.#options.api.request({ method: 'GET', path, query: { limit: 1 }, timeoutMs: LOOK_TIMEOUT_MS });
      this.#set(undefined);
    } catch (error) {
      this.#set(causeOf(error));
    } finally {
      this.#looking = false;
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
  return /conversion webhook for \S+, Kind=SecretMirror failed/.test(error.statusMessage) ? 'webhook' : undefined;
}
