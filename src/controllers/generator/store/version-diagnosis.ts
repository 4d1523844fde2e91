/** Diagnoses a watch that gets 404: the CRDs of ESO serve another version now, or are gone. */
import type { WatchDiagnosis } from '../../../copy/cluster/cluster.ts';
import { isNotFound } from '../../../kube/errors.ts';
import { ESO_ADVICE } from '../api.ts';
import type { ServedVersions } from './served-versions.ts';

export class VersionDiagnosis implements WatchDiagnosis {
  readonly #versions: ServedVersions;
  readonly #isNamed: boolean;
  #isMissing = false;

  /** @param isNamed the user named the controller, so it is an error that its API is missing */
  constructor(versions: ServedVersions, isNamed: boolean) {
    this.#versions = versions;
    this.#isNamed = isNamed;
  }

  get advice(): string | undefined {
    return this.#isMissing ? ESO_ADVICE : undefined;
  }

  get isExcused(): boolean {
    return this.#isMissing && !this.#isNamed;
  }

  readonly found = undefined;

  failed(error: unknown): boolean {
    const wasMissing = this.#isMissing;
    this.#isMissing = isNotFound(error);
    if (this.#isMissing) void this.#refresh();
    return wasMissing && this.#isMissing;
  }

  /** The next try of the watch uses the version that is served then. Never rejects: that try fails, too, and refreshes again. */
  async #refresh(): Promise<void> {
    await this.#versions.refresh().catch(() => false);
  }
}
