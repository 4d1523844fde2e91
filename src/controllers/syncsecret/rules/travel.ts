/**
 * Decides which labels and annotations of a tenant reach another object. Programs in the management cluster obey some:
 * one logs in at the address in `vault-addr`. No list of such keys is complete, so only keys travel that an
 * administrator allows. CCM and manager both check that: a tenant's token can write SyncSecrets without the CCM.
 */
import type { SyncSecretConfig } from '../../../config/config.ts';
import { finish } from '../../../runtime/queue/slices.ts';
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
    return finish(copiedMetadata(map, (key) => isAllowed(key, this.#labels)));
  }

  annotations(map: Texts): Record<string, string> {
    return finish(copiedMetadata(map, (key) => isAllowed(key, this.#annotations)));
  }

  /** Labels for the SyncSecret beside a Secret: those that any copy gets, and those that may travel on from there. */
  labelsOfSecret(map: Texts): Record<string, string> {
    return finish(copiedMetadata(map, (key, value) => isCopied(key, value) || isAllowed(key, this.#labels)));
  }
}

function isAllowed(key: string, patterns: WholePatterns): boolean {
  return !isMark(key) && patterns.matches(key);
}
