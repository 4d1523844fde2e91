/** `keyferry status`: what is copied where, what is not and why, from the cluster itself; the daemon need not run. */
import type { KubeApi } from '../kube/api.ts';
import type { StatusOptions } from './actions.ts';
import { mirrorsStatus } from './status/mirrors.ts';
import { replicatorStatus } from './status/replicator.ts';
import { reportOf, type StatusReport } from './status/report.ts';
import { textTable } from './text-table.ts';

/**
 * The text that the command prints.
 * @param now wall clock, ms
 * @throws what `api.request` throws
 */
export async function status(
  api: KubeApi,
  cluster: string,
  { namespace, output, replicator }: Pick<StatusOptions, 'namespace' | 'output' | 'replicator'>,
  now: number,
  signal?: AbortSignal,
): Promise<string> {
  const systems = await Promise.all([
    mirrorsStatus(api, namespace, signal),
    replicatorStatus(api, replicator, namespace, now, signal),
  ]);
  const report = reportOf(cluster, systems);
  return output === 'json' ? `${JSON.stringify(report, undefined, 2)}\n` : tables(report);
}

function tables({ rules, orphans, systems }: StatusReport): string {
  const parts: string[][] = [];
  const missing = systems.filter(({ installed }) => !installed).map(({ system }) => system);
  if (rules.length > 0) {
    const header = ['SYSTEM', 'NAMESPACE', 'NAME', 'SOURCE', 'STATE', 'READY', 'COPIES', 'LAST SYNC', 'WHY'];
    const rows = rules.map((rule) => [
      rule.system,
      rule.namespace,
      rule.name,
      rule.source,
      rule.state,
      rule.ready ? 'True' : 'False',
      String(rule.copies.length),
      rule.lastSyncTime ?? 'never',
      `${rule.reason}: ${rule.message}`,
    ]);
    parts.push(textTable(header, rows));
  } else if (missing.length < systems.length) {
    parts.push(['Nothing was asked for.']);
  }
  const copies = rules.flatMap((rule) =>
    rule.copies.map(({ kind, namespace, name, sourceVersion }) => {
      return [kind, namespace, name, `${rule.kind} ${rule.namespace}/${rule.name}`, rule.source, sourceVersion];
    }),
  );
  if (copies.length > 0) {
    parts.push(textTable(['COPY', 'NAMESPACE', 'NAME', 'FOR', 'OF', 'AT VERSION'], copies));
  }
  if (orphans.length > 0) {
    const rows = orphans.map(({ kind, namespace, name, owner, reason }) => [kind, namespace, name, owner, reason]);
    parts.push(textTable(['ORPHAN', 'NAMESPACE', 'NAME', 'MARKED BY', 'WHY'], rows));
  }
  for (const system of missing) {
    parts.push([`The API of ${system} is not installed here: keyferry crds | kubectl apply -f -`]);
  }
  return `${parts.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}
