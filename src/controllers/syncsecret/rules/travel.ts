/**
 * The labels and annotations that reach another object. A tenant writes them, and programs in the management cluster obey some: one
 * logs in at the address that `vault-addr` names. No list of those is complete, so only keys travel that an administrator allows. CCM and
 * manager both enforce it, because a tenant's token can write SyncSecrets without the CCM.
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

  /** The labels that go from a tenant's Secret to the SyncSecret beside it: those of any copy, and what may go on from there. */
  labelsOfSecret(map: Texts): Record<string, string> {
    return finish(copiedMetadata(map, (key, value) => isCopied(key, value) || isAllowed(key, this.#labels)));
  }
}

function isAllowed(key: string, patterns: WholePatterns): boolean {
  return !isMark(key) && patterns.matches(key);
}
