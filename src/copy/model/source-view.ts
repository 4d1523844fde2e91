/** The view of a source in a cluster: the same for the operator and for the short commands. */
import { userCause } from './cause.ts';
import type { SourceView } from './claim.ts';
import { parseResourceKey, type ResourceKey } from './keys.ts';
import { contentVersion, type Observed } from './observed.ts';

/**
 * @param observed `undefined`: there is no such object, as far as is known
 * @param isKnown whether an object that exists would be known
 */
export function sourceView(source: ResourceKey, observed: Observed | undefined, isKnown: () => boolean): SourceView {
  if (observed !== undefined) {
    const { labels, annotations } = observed;
    return { state: 'present', version: contentVersion(observed), labels, annotations };
  }
  if (!isKnown()) return { state: 'unknown' };
  const { kind, namespace, name } = parseResourceKey(source);
  const message = `${kind.toLowerCase()} ${namespace}/${name} not found, waiting to appear`;
  return { state: 'missing', ...userCause(`No${kind}`, message) };
}
