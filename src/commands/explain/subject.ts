/** The object that `keyferry explain` is about, as its arguments name it. */
import type { Collection } from '../../controllers/common/snapshot/list-permitted.ts';
import { quoted, UsageError } from '../../config/usage-error.ts';

export interface Subject {
  readonly collection: Collection;
  readonly namespace: string;
  readonly name: string;
}

/**
 * @param kind its kind or plural, in any case: `Secret`, `secrets`
 * @param place `NAMESPACE/NAME`
 * @throws UsageError naming the argument
 */
export function subjectOf(kind: string, place: string, collections: readonly Collection[]): Subject {
  const wanted = kind.toLowerCase();
  const collection = collections.find((one) => [one.kind.toLowerCase(), one.plural].includes(wanted));
  if (collection === undefined) {
    const known = collections.map((one) => one.kind.toLowerCase()).join(', ');
    throw new UsageError(`unknown kind ${quoted(kind)}: must be one of ${known}`);
  }
  const [namespace = '', name = '', ...more] = place.split('/');
  if (namespace === '' || name === '' || more.length > 0) {
    throw new UsageError(`bad name ${quoted(place)}: must be NAMESPACE/NAME`);
  }
  return { collection, namespace, name };
}
