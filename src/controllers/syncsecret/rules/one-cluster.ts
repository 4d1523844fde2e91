/**
 * Decides whether the CCM serves a SyncSecret. A copy, by its marks, is never a rule of a CCM, so there is no recursion
 * in a cluster that is both the tenant's and the management cluster. The manager serves all SyncSecrets in its
 * namespaces (`--served-namespaces`). In one cluster with a CCM these must be the tenants' namespaces alone, and a CCM in
 * the same process leaves them to the manager.
 */
import { WholePatterns } from '../../../runtime/text/whole-patterns.ts';
import { SYNC_SECRET_FINALIZER } from '../api.ts';
import type { SyncSecretRule } from './rule.ts';

export type IsServed = (namespace: string) => boolean;

/** The manager's namespaces. @param patterns from the flag; empty: all */
export function servedNamespaces(patterns: readonly string[]): IsServed {
  if (patterns.length === 0) return () => true;
  const served = new WholePatterns(patterns);
  return (namespace) => served.matches(namespace);
}

/** A copy has the uid of its SyncSecret as name. */
const UID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** @param isManagers whether a namespace belongs to a manager in the same process */
export function isOfCcm({ metadata, origin }: SyncSecretRule, isManagers: IsServed): boolean {
  const { name, namespace = '', finalizers, deletionTimestamp } = metadata;
  if (isManagers(namespace)) return false;
  if (origin !== 'another') return true;
  // A tenant's SyncSecret got the labels of a copy after it was copied. Else nobody would remove the CCM's finalizer. That
  // of a real copy is the manager's, which may run in another process.
  return deletionTimestamp !== undefined && finalizers.includes(SYNC_SECRET_FINALIZER) && !UID.test(name);
}
