/**
 * Decides whether CCM or manager serves a SyncSecret. A cluster can be a tenant cluster, the management cluster, or
 * both. The CCM knows this from the uids of both `kube-system` namespaces, and the manager has its namespaces from a
 * flag. Neither objects of users nor the order of events decide.
 *
 *   SyncSecret                                the CCM                       the manager
 *   a copy, by its marks                      leaves it alone               serves it in its namespaces
 *   in `tenant-*`, if the uids are equal      leaves it alone               serves it in its namespaces
 *   in `tenant-*`, if a uid cannot be read    keeps an existing copy,       serves it in its namespaces
 *                                             makes and changes none
 *   any other                                 copies it                     serves it without `PROPAGATED_ANNOTATION`
 *
 * - A forged `PROPAGATED_ANNOTATION` or mark harms only the object that has it. The CCM releases a SyncSecret that has
 *   the annotation but is not to be copied: it deletes the copy and removes the annotation.
 * - If both run in one process, the manager serves `tenant-*` by default, and the CCM leaves these namespaces alone,
 *   whatever the uids are.
 * - In two processes, a manager that serves all namespaces serves a SyncSecret until the CCM has marked it. To avoid
 *   that, let the manager serve only `tenant-*`.
 * - A deleted object outside of the manager's namespaces may still have the finalizer after twice the deletion timeout.
 *   Then no CCM works on it (the object is a clone, or from a backup), and the manager removes the finalizer. A copy
 *   that remains is an orphan of its CCM.
 */
import { WholePatterns } from '../../../runtime/text/whole-patterns.ts';
import { OWN_FINALIZERS } from '../api.ts';
import { UNKNOWN_CLUSTER } from './marks.ts';
import type { SyncSecretRule } from './rule.ts';

/** The prefix of tenants' namespaces in a management cluster. In a tenant's cluster it means nothing. */
const TENANT_PREFIX = 'tenant-';

/** The program to which the SyncSecrets of a namespace belong, as a CCM sees it. `unknown`: a uid is not known. */
export type Zone = 'ccm' | 'manager' | 'unknown';

/** What the CCM does with a SyncSecret. `keep`: it leaves an existing copy as it is. `release`: it deletes the copy. */
export type CcmDuty = 'copy' | 'keep' | 'release' | 'none';

/** What the manager does with a SyncSecret. `free`: it removes the finalizer after twice the deletion timeout. */
export type ManagerDuty = 'serve' | 'free' | 'none';

type IsServed = (namespace: string) => boolean;

/** The manager's namespaces. @param patterns from the flag; empty: all, or `tenant-*` if a CCM is in the process */
export function servedNamespaces(patterns: readonly string[], hasCcm: boolean): IsServed {
  if (patterns.length === 0) return (namespace) => !hasCcm || namespace.startsWith(TENANT_PREFIX);
  const served = new WholePatterns(patterns);
  return (namespace) => served.matches(namespace);
}

/**
 * @param own uid of the CCM's cluster; `UNKNOWN_CLUSTER`: it cannot be read; `undefined`: not read yet
 * @param management the same for the management cluster
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
