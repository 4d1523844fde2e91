/** Diagnoses a watch that only some rules need: without the permission for it the process is ready, and other rules do not wait. */
import type { WatchDiagnosis } from '../../copy/cluster/cluster.ts';
import { isForbidden } from '../../kube/errors.ts';

export class RightsDiagnosis implements WatchDiagnosis {
  readonly #plural: string;
  readonly #found = Promise.withResolvers<void>();
  #isForbidden = false;

  constructor(plural: string) {
    this.#plural = plural;
  }

  get found(): Promise<void> {
    return this.#found.promise;
  }

  failed(error: unknown): boolean {
    const isKnown = this.#isForbidden;
    this.#isForbidden = isForbidden(error);
    if (!this.#isForbidden) return false;
    this.#found.resolve();
    return isKnown;
  }

  get advice(): string | undefined {
    return this.#isForbidden ? `give Keyferry the permission to list and watch ${this.#plural}` : undefined;
  }

  get isExcused(): boolean {
    return this.#isForbidden;
  }
}
