/**
 * Orphans whose rule is out of sight: it is in a namespace that is not served, or where the permissions do not cover it. Such a rule counts as
 * there, so its copies stay. If its namespace does not exist, the rule does not either.
 */
import { isForbidden } from '../../../kube/errors.ts';
import type { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import type { Claims } from '../../book/claims.ts';
import { namespaceOf } from '../../model/keys.ts';
import type { FactSource } from '../../plan/decide.ts';
import type { NamespaceReads } from '../watch/namespace-reads.ts';

type OrphanActionOf = FactSource['orphanActionOf'];

/** @param inSight decides about the orphans of other rules */
export function orphanActions(
  reads: Pick<NamespaceReads, 'exists'>,
  claims: Pick<Claims, 'ruleSetOf'>,
  served: ServedNamespaces | undefined,
  inSight: OrphanActionOf,
): OrphanActionOf {
  if (served === undefined) return inSight;
  return async (owner, target, observed, signal) => {
    const namespace = namespaceOf(owner);
    if (served.has(namespace)) {
      try {
        return await inSight(owner, target, observed, signal);
      } catch (error) {
        if (served.selector !== undefined && isForbidden(error)) return 'keep';
        throw error;
      }
    }
    // With a list, Keyferry has no right to read namespaces.
    if (served.selector === undefined || (await reads.exists(namespace, signal))) return 'keep';
    return served.has(namespace) ? 'later' : claims.ruleSetOf(owner).orphanPolicy(owner, observed, false);
  };
}
