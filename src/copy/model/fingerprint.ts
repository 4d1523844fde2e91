/** The part of a content that stays in memory when its values are dropped: enough to compare it with another one. */
import { getOrCreate } from '../../runtime/maps.ts';
import type { Content } from './content.ts';

export interface Fingerprint {
  readonly digest: string;
  /** As `Observed.ownKeys`. */
  readonly keys: string;
  /** '' for a kind without types. */
  readonly type: string;
}

const FINGERPRINTS = new WeakMap<Content, Fingerprint>();

/** The same object for all copies of a content. */
export function fingerprintOf(content: Content): Fingerprint {
  const { digest, keys, type } = content;
  return getOrCreate(FINGERPRINTS, content, () => ({ digest, keys, type }));
}
