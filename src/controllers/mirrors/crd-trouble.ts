/**
 * Why the SecretMirrors of a cluster cannot be listed, where the reason is their CustomResourceDefinition, and what to do about it.
 *
 * - It is not installed, or was deleted: the watch of the mirrors gets 404.
 * - It converts objects through the webhook of the original's Helm chart, which nobody answers any more: a list gets 500 with the
 *   webhook's error, and a watch 429 "storage is (re)initializing". Some servers leave the reason out of the 429; then one object
 *   is asked for, whose answer has it.
 */
import type { KubeApi } from '../../kube/api.ts';
import { ApiError, isStorageStarting } from '../../kube/errors.ts';
import { MIRRORS_API_PATH, MIRRORS_GROUP, SECRET_MIRROR_PLURAL } from './api.ts';

const CRD = `${SECRET_MIRROR_PLURAL}.${MIRRORS_GROUP}`;

/** What to do where the CRD is missing. */
export const NOT_INSTALLED = `the CRD ${CRD} is not installed: keyferry crds | kubectl apply --server-side -f -`;

/** What to do where the CRD has the original's webhook. */
export const CONVERTED_BY_WEBHOOK =
  `the CRD ${CRD} converts its objects through a webhook that does not answer: kubectl patch crd ${CRD} --type json ` +
  `-p '[{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}}]', then install the CRD of keyferry crds`;

const LOOK_TIMEOUT_MS = 10_000;

export type CrdTroubleKind = 'missing' | 'webhook';

export class CrdTrouble {
  readonly #api: KubeApi;
  readonly #found = Promise.withResolvers<void>();
  #kind: CrdTroubleKind | undefined;
  #looking = false;

  constructor(api: KubeApi) {
    this.#api = api;
  }

  /** What was wrong when the watch of the mirrors failed last; `undefined`: nothing that the CRD is the reason of. */
  get kind(): CrdTroubleKind | undefined {
    return this.#kind;
  }

  /** What is wrong, and what to do. */
  get advice(): string | undefined {
    if (this.#kind === undefined) return undefined;
    return this.#kind === 'missing' ? NOT_INSTALLED : CONVERTED_BY_WEBHOOK;
  }

  /** Settles when the CRD is found to be the reason for the first time. */
  get found(): Promise<void> {
    return this.#found.promise;
  }

  /** The watch of the mirrors broke, or could not be opened. */
  failed(error: unknown): void {
    const kind = kindOf(error);
    // A 429 without a reason is a sign of the webhook that was found before, until the look says otherwise.
    if (kind === undefined && isStorageStarting(error)) void this.#look();
    else this.#set(kind);
  }

  /** Asks for one object. Never rejects: how it fails is what is asked for. */
  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      const path = `${MIRRORS_API_PATH}/${SECRET_MIRROR_PLURAL}`;
      await this.#api.request({ method: 'GET', path, query: { limit: 1 }, timeoutMs: LOOK_TIMEOUT_MS });
      this.#set(undefined);
    } catch (error) {
      this.#set(kindOf(error));
    } finally {
      this.#looking = false;
    }
  }

  #set(kind: CrdTroubleKind | undefined): void {
    this.#kind = kind;
    if (kind !== undefined) this.#found.resolve();
  }
}

function kindOf(error: unknown): CrdTroubleKind | undefined {
  if (!(error instanceof ApiError)) return undefined;
  if (error.status === 404) return 'missing';
  return /conversion webhook for \S+, Kind=SecretMirror failed/.test(error.statusMessage) ? 'webhook' : undefined;
}
