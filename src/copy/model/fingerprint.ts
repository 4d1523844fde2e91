/** The part of a content that stays in memory when its values are dropped: enough to compare it with another one. */
import type { Content } from './content.ts';

export interface Fingerprint {
  readonly digest: string;
  /** As `Observed.ownKeys`. */
  readonly keys: string;
  /** '' for a kind without types. */
  readonly type: string;
}

export function fingerprintOf({ digest, keys, type }: Content): Fingerprint {
  return { digest, keys, type };
}
