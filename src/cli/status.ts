/** `keyferry status`: rules, copies and problems, read from the cluster. The operator need not run. */
import { stringify } from 'yaml';
import type { KubeApi } from '../kube/api.ts';
import type { StatusOptions } from './actions.ts';
import { Snapshot } from './snapshot/snapshot.ts';
import { reachNotes, requireReach } from './snapshot/reach-notes.ts';
import { mirrorsStatus } from './status/mirrors.ts';
import { replicatorStatus } from './status/replicator.ts';
import { reportOf, type RuleStatus, type StatusReport } from './status/report.ts';
import { textTable } from './text-table.ts';

/**
 * The text that the command prints.
 * @param now wall clock, ms
 * @throws the errors of `api.request`
 */
export async function status(
  api: KubeApi,
  cluster: string,
  options: Omit<StatusOptions, 'kubeconfig' | 'context'>,
  now: number,
  signal?: AbortSignal,
): Promise<string> {
  const { namespace, output, regexMode, replicator, failed } = options;
  const snapshot = await Snapshot.at({ api, regexMode, replicator, namespace, now, signal });
  requireReach(snapshot.inventory, ['Secret'], namespace === undefined ? '; use -n NAMESPACE for one namespace' : '');
  const controllers = [await mirrorsStatus(snapshot, namespace), await replicatorStatus(snapshot, namespace)];
  const report = reportOf(cluster, controllers, reachNotes(snapshot.inventory), failed);
  if (output === 'table') return tables(report, options);
  return output === 'json' ? `${JSON.stringify(report, undefined, 2)}\n` : stringify(report);
}

function tables(report: StatusReport, { failed, namespace }: Pick<StatusOptions, 'failed' | 'namespace'>): string {
  const { rules, orphans, systems, notes } = report;
  const parts: string[][] = [];
  const addTable = (header: readonly string[], rows: readonly (readonly string[])[]): void => {
    if (rows.length > 0) parts.push(textTable(header, rows));
  };
  const missing = systems.filter(({ installed }) => !installed).map(({ system }) => system);
  addTable(
    ['SYSTEM', 'NAMESPACE', 'NAME', 'SOURCE', 'STATE', 'READY', 'COPIES', 'LAST SYNC', 'WHY'],
    rules.map((rule) => [
      rule.system,
      rule.namespace,
      rule.name,
      rule.source,
      rule.state,
      rule.ready ? 'True' : 'False',
      String(rule.copies.length),
      rule.lastSyncTime ?? 'never',
      `${rule.reason}: ${rule.message}`,
    ]),
  );
  if (rules.length === 0 && missing.length < systems.length) {
    const place = namespace === undefined ? '' : ` in namespace ${namespace}`;
    const none = failed
      ? 'No problems found'
      : 'No SecretMirrors and no Secrets or ConfigMaps with replicator annotations found';
    parts.push([`${none}${place}.`]);
  }
  const failing = rules.flatMap((rule) =>
    rule.failing.map(({ kind, namespace, name, reason, message }) => {
      return [kind, namespace, name, titleOf(rule), `${reason}: ${message}`];
    }),
  );
  if (failed) addTable(['FAILING', 'NAMESPACE', 'NAME', 'FOR', 'WHY'], failing);
  const copies = rules.flatMap((rule) =>
    rule.copies.map(({ kind, namespace, name, sourceVersion }) => {
      return [kind, namespace, name, titleOf(rule), rule.source, sourceVersion];
    }),
  );
  if (!failed) addTable(['COPY', 'NAMESPACE', 'NAME', 'FOR', 'OF', 'AT VERSION'], copies);
  addTable(
    ['ORPHAN', 'NAMESPACE', 'NAME', 'MARKED BY', 'WHY'],
    orphans.map(({ kind, namespace, name, owner, reason }) => [kind, namespace, name, owner, reason]),
  );
  if (notes.length > 0) parts.push([...notes]);
  for (const system of missing) {
    parts.push([`The CRD of ${system} is not installed: run keyferry crds | kubectl apply --server-side -f -`]);
  }
  return `${parts.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}

function titleOf({ kind, namespace, name }: RuleStatus): string {
  return `${kind} ${namespace}/${name}`;
}
