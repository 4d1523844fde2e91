/** `keyferry status`: rules, copies and problems, read from the cluster. The operator need not run. */
import { stringify } from 'yaml';
import type { KubeApi } from '../kube/api.ts';
import { Snapshot } from '../controllers/common/snapshot/snapshot.ts';
import {
  byName,
  type ControllerStatus,
  LIMITED,
  type OrphanStatus,
  type RuleStatus,
} from '../controllers/common/snapshot/status-report.ts';
import { controllerReaders } from '../controllers/list.ts';
import type { StatusOptions } from './actions.ts';
import { reachNotes, requireSomeReach } from './reach-notes.ts';
import { textTable } from './text-table.ts';

/**
 * The output. JSON and YAML have exactly these fields; fields are added, but never changed or removed. The schema is
 * docs/schemas/status.json.
 */
export interface StatusReport {
  readonly apiVersion: 'keyferry.dev/v1';
  readonly kind: 'Status';
  /** Host of the API server. */
  readonly cluster: string;
  readonly systems: readonly { readonly system: string; readonly installed: boolean }[];
  /** What could not be listed, and why. */
  readonly notes: readonly string[];
  readonly rules: readonly RuleStatus[];
  readonly orphans: readonly OrphanStatus[];
}

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
  const { namespace, output, config, failed } = options;
  const controllers = await controllerReaders();
  const snapshot = await Snapshot.at({ api, config, controllers, namespace, now, signal });
  const hint = namespace === undefined ? '; use -n NAMESPACE for one namespace' : '';
  const kinds = controllers.flatMap(({ collection }) => collection?.kind ?? []);
  requireSomeReach(snapshot.inventory, kinds, hint);
  const readers = [...snapshot.readers].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, reader]) => reader);
  const isIncluded = (place: string): boolean => namespace === undefined || place === namespace;
  const found: ControllerStatus[] = [];
  for (const reader of readers) {
    const one = await reader.status(snapshot, isIncluded);
    if (one.installed || one.isOptional !== true) found.push(one);
  }
  const rules = found.flatMap((one) => one.rules).toSorted(byName);
  const orphans = found
    .flatMap((one) => one.orphans)
    // One without a readable mark belongs to the namespace that it is in.
    .filter(({ owner, namespace: place }) => isIncluded(owner === '' ? place : (owner.split('/')[0] ?? '')));
  const report: StatusReport = {
    apiVersion: 'keyferry.dev/v1',
    kind: 'Status',
    cluster,
    systems: found.map(({ system, installed }) => ({ system, installed })),
    notes: reachNotes(snapshot.inventory),
    rules: failed ? rules.filter(({ ready, reason }) => !ready && reason !== LIMITED) : rules,
    orphans: failed ? [] : orphans.toSorted(byName),
  };
  if (output === 'table') {
    const hasCounts = ({ kind }: RuleStatus): boolean =>
      kind === 'ConfigMap' || !snapshot.inventory.isRefused('Secret');
    return tables(report, { ...options, hasCounts, ruleNames: readers.map((one) => one.ruleNames).join(' and no ') });
  }
  return output === 'json' ? `${JSON.stringify(report, undefined, 2)}\n` : stringify(report);
}

interface TableOptions extends Pick<StatusOptions, 'failed' | 'namespace'> {
  /** Of all controllers. */
  readonly ruleNames: string;
  /** Whether the copies of a rule could be listed. */
  readonly hasCounts: (rule: RuleStatus) => boolean;
}

function tables(report: StatusReport, { failed, namespace, ruleNames, hasCounts }: TableOptions): string {
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
      hasCounts(rule) ? String(rule.copies.length) : '?',
      rule.lastSyncTime ?? 'never',
      `${rule.reason}: ${rule.message}`,
    ]),
  );
  if (rules.length === 0 && missing.length < systems.length) {
    const place = namespace === undefined ? '' : ` in namespace ${namespace}`;
    parts.push([`${failed ? 'No problems' : `No ${ruleNames}`} found${place}.`]);
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
