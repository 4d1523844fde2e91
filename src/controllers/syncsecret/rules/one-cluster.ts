/**
 * Decides whether the CCM serves a SyncSecret. A copy, by its marks, is never a rule of a CCM, so there is no recursion
 * in a cluster that is both the tenant's and the management cluster. The manager serves all SyncSecrets in its
 * namespaces (`--served-namespaces`). In one cluster with a CCM these must be the tenants' namespaces alone, and a CCM in
 * the same process leaves them to the manager.
 */
import { WholePatterns } from '../../../runtime/text/whole-patterns.ts';
import type { SyncSecretRule } from './rule.ts';

/** What the CCM does with a SyncSecret. `release`: it deletes the copy. */
export type CcmDuty = 'copy' | 'release' | 'none';

export type IsServed = (namespace: string) => boolean;

/** The manager's namespaces. @param patterns from the flag; empty: all */
export function servedNamespaces(patterns: readonly string[]): IsServed {
  if (patterns.length === 0) return () => true;
  const served = new WholePatterns(patterns);
  return (namespace) => served.matches(namespace);
}

/**
 * A SyncSecret with `PROPAGATED_ANNOTATION` was copied. If it is not to be copied any more, it is released.
 * @param isManagers whether a namespace belongs to a manager in the same process
 */
export function ccmDuty({ metadata, origin, propagated }: SyncSecretRule, isManagers: IsServed): CcmDuty {
  const { namespace = '', deletionTimestamp } = metadata;
  if (origin === 'another' || isManagers(namespace)) return propagated === undefined ? 'none' : 'release';
  return deletionTimestamp === undefined ? 'copy' : 'release';
}
