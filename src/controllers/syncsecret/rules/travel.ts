/**
 * Decides which labels and annotations travel: which ones a copy gets from its source. Programs in the management
 * cluster act on some: one logs in at the address in `vault-addr`. So only keys that an administrator allows travel.
 * CCM and manager both check this: with its token, a tenant can write SyncSecrets there without the CCM.
 */
import type { SyncSecretConfig } from '../../../config/config.ts';
import { WholePatterns } from '../../../runtime/text/whole-patterns.ts';
import { copiedMetadata, isCopied, isMark } from '../../common/excluded-metadata.ts';

type Texts = Readonly<Record<string, string>>;
export type TravelConfig = Pick<SyncSecretConfig, 'propagateLabels' | 'propagateAnnotations'>;

export class Travel {
  readonly #labels: WholePatterns;
  readonly #annotations: WholePatterns;

  constructor({ propagateLabels, propagateAnnotations }: TravelConfig) {
    this.#labels = new WholePatterns(propagateLabels);
    this.#annotations = new WholePatterns(propagateAnnotations);
  }

  labels(map: Texts): Record<string, string> {
    return copiedMetadata(map, (key) => isAllowed(key, this.#labels));
  }

  annotations(map: Texts): Record<string, string> {
    return copiedMetadata(map, (key) => isAllowed(key, this.#annotations));
  }

  /** Labels for the SyncSecret of a labelled Secret: those that any copy gets, and those that the flag allows. */
  labelsOfSecret(map: Texts): Record<string, string> {
    return copiedMetadata(map, (key, value) => isCopied(key, value) || isAllowed(key, this.#labels));
  }
}

function isAllowed(key: string, patterns: WholePatterns): boolean {
  return !isMark(key) && patterns.matches(key);
}
