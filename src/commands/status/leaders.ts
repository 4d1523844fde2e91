/** Finds out which process is the leader (holds the Lease of leader election), and since when. */
import { isForbidden, isNotFound } from '../../kube/errors.ts';
import { holderOf, type Lease } from '../../kube/leader-election/lease.ts';
import { listEach } from '../../kube/list-each.ts';
import { parseJson } from '../../kube/json.ts';
import type { StatusReport } from '../../../scripts/reports/schemas.ts';
import type { CommandContext } from '../output/reading.ts';

/** The holder and the times of one of Keyferry's Leases. */
type LeaderStatus = StatusReport['leaders'][number];

export interface Leaders {
  readonly leaders: readonly LeaderStatus[];
  /** Why the Leases could not be read; absent: they could. */
  readonly note?: string;
}

const API = '/apis/coordination.k8s.io/v1';
/** Keyferry's namespace in the documentation. */
const USUAL = 'keyferry';

/**
 * Reads the Leases with the chart's label. If there are none, or the caller has no permission to list Leases, reads the
 * Lease with the given name in Keyferry's namespace.
 * @throws the errors of `api.request`, except for a missing permission
 */
export async function leadersOf(
  { api, namespace: home, now, signal }: Pick<CommandContext, 'api' | 'namespace' | 'now' | 'signal'>,
  name: string,
): Promise<Leaders> {
  const leaders: LeaderStatus[] = [];
  const take = (lease: Lease): unknown => leaders.push(leaderOf(lease, now()));
  const path = `${API}/namespaces/${home === 'default' ? USUAL : home}/leases/${name}`;
  try {
    const labelSelector = 'app.kubernetes.io/name=keyferry';
    await listEach(api, `${API}/leases`, take, { labelSelector, signal }).catch((error: unknown) => {
      if (!isForbidden(error)) throw error;
    });
    if (leaders.length > 0) return { leaders };
    const { body } = await api.request({ method: 'GET', path, signal });
    take(parseJson(body, `the answer to GET ${path}`) as Lease);
  } catch (error) {
    if (isForbidden(error)) return { leaders, note: 'Leases are not included: no permission to read them' };
    if (!isNotFound(error)) throw error;
  }
  return { leaders };
}

function leaderOf(lease: Lease, now: number): LeaderStatus {
  const { renewTime, leaseDurationSeconds, acquireTime } = lease.spec ?? {};
  const { namespace = '', name } = lease.metadata;
  const holder = holderOf(lease) ?? null;
  const end = Date.parse(renewTime ?? '') + (leaseDurationSeconds ?? 0) * 1000;
  return { namespace, name, holder, since: (holder && acquireTime) ?? null, expired: holder !== null && now > end };
}

/** `Leader: keyferry-7d9f-x2x since 2026-11-25T22:00:00Z (Lease keyferry/keyferry)` */
export function leaderLine({ namespace, name, holder, since, expired }: LeaderStatus): string {
  const who =
    holder === null
      ? 'none'
      : `${holder.split('_')[0] ?? ''} since ${since?.replace(/\.\d+/, '') ?? 'an unknown time'}`;
  return `Leader: ${who} (Lease ${namespace}/${name})${expired ? ', who has not renewed it in time' : ''}`;
}
