/**
 * Which program serves a SyncSecret. A cluster may be that of a tenant, of the management, or both. Nobody learns that from objects that
 * authors write, or from time: the CCM compares the uids of both `kube-system` namespaces, and the manager has a flag for its namespaces.
 *
 *   SyncSecret                                  the CCM                       the manager
 *   a copy, by its marks                        leaves it alone               serves it in its namespaces
 *   in `tenant-*`, if the uids are equal        leaves it alone               serves it in its namespaces
 *   in `tenant-*`, if a uid cannot be read      keeps an existing copy,       serves it in its namespaces
 *                                               makes and changes none
 *   any other                                   copies it                     serves it in its namespaces, unless it has `PROPAGATED_ANNOTATION`
 *
 * - `PROPAGATED_ANNOTATION` and the marks of a copy concern the object alone that has them, so a forged one harms nobody else. A SyncSecret
 *   that the CCM does not copy and that still has `PROPAGATED_ANNOTATION` is released: its copy goes, and the annotation.
 * - In one process, the namespaces of the manager are by default `tenant-*`, and the CCM leaves them alone, whatever the uids are.
 * - In two processes, a manager that serves all namespaces hands a SyncSecret over when the CCM has marked it. To avoid that, give it `tenant-*`.
 * - A manager removes the finalizer of a deleted object that it does not serve when the CCM has had twice the limit of deletions for it: then
 *   there is none, and the object was cloned or restored. The time begins when the manager sees the deletion. A copy that is left by that is
 *   an orphan of its CCM.
 */
import { WholePatterns } from '../../../runtime/text/whole-patterns.ts';
import { OWN_FINALIZERS } from '../api.ts';
import { UNKNOWN_CLUSTER } from './marks.ts';
import type { SyncSecretRule } from './rule.ts';

/** The prefix of the tenants' namespaces in a management cluster. In a tenant's cluster the same name has no meaning. */
const TENANT_PREFIX = 'tenant-';

/** Whose the SyncSecrets of a namespace are, in the cluster of a CCM. */
export type Zone = 'ccm' | 'manager' | 'unknown';

/** What the CCM does with a SyncSecret. `keep`: a copy that may exist is neither changed nor deleted. */
export type CcmDuty = 'copy' | 'keep' | 'release' | 'none';

/** What the manager does with a SyncSecret. `free`: the manager removes the finalizer, after a time. */
export type ManagerDuty = 'serve' | 'free' | 'none';

type IsServed = (namespace: string) => boolean;

/** The namespaces of the manager. @param patterns of the flag; empty: all, or those of tenants if a CCM is in the process */
export function servedNamespaces(patterns: readonly string[], hasCcm: boolean): IsServed {
  if (patterns.length === 0) return (namespace) => !hasCcm || namespace.startsWith(TENANT_PREFIX);
  const served = new WholePatterns(patterns);
  return (namespace) => served.matches(namespace);
}

/**
 * @param own the uid of the CCM's cluster, or `UNKNOWN_CLUSTER`; `undefined`: not read yet
 * @param management as `own`, of the management cluster
 * @param isManagers whether a namespace belongs to a manager in the same process
 */
export function zoneOf(
  namespace: string,
  own: string | undefined,
  management: string | undefined,
  isManagers: IsServed,
): Zone {
  if (isManagers(namespace)) return 'manager';
  if (!namespace.startsWith(TENANT_PREFIX)) return 'ccm';
  if ([own, management].some((uid) => uid === undefined || uid === UNKNOWN_CLUSTER)) return 'unknown';
  return own === management ? 'manager' : 'ccm';
}

export function ccmDuty({ metadata, origin, propagated }: SyncSecretRule, zone: Zone): CcmDuty {
  if (origin === 'another' || zone === 'manager') return propagated === undefined ? 'none' : 'release';
  if (zone === 'unknown' && propagated === undefined) return 'none';
  if (metadata.deletionTimestamp !== undefined) return 'release';
  return zone === 'unknown' ? 'keep' : 'copy';
}

export function managerDuty({ metadata, origin, propagated }: SyncSecretRule, isServed: IsServed): ManagerDuty {
  const { namespace = '', deletionTimestamp, finalizers } = metadata;
  if (isServed(namespace) && (propagated === undefined || origin === 'another')) return 'serve';
  return deletionTimestamp !== undefined && finalizers.some((one) => OWN_FINALIZERS.has(one)) ? 'free' : 'none';
}
