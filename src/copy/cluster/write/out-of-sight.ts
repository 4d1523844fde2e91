/**
 * Decides on a copy whose rule Keyferry cannot read, because the rule's namespace is not served or the permission is
 * missing. The rule counts as existing, so the copy stays. If its namespace does not exist, the rule does not either.
 */
import { isForbidden } from '../../../kube/errors.ts';
import type { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import type { Claims } from '../../book/claims.ts';
import { namespaceOf } from '../../model/keys.ts';
import type { FactSource } from '../../plan/decide.ts';
import type { NamespaceReads } from '../watch/namespace-reads.ts';

type OrphanActionOf = FactSource['orphanActionOf'];

/** @param inSight decides on the copies of rules that Keyferry can read */
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
    // If a list names the served namespaces, Keyferry has no permission to read namespaces.
    if (served.selector === undefined || (await reads.exists(namespace, signal))) return 'keep';
    return served.has(namespace) ? 'later' : claims.ruleSetOf(owner).orphanPolicy(owner, observed, false);
  };
}
