/** The report of `keyferry status`, made from a snapshot. */
import { orphansIn } from '../../controllers/common/snapshot/leftovers.ts';
import type { Snapshot } from '../../controllers/common/snapshot/snapshot.ts';
import {
  byName,
  LIMITED,
  type OrphanStatus,
  ruleStatuses,
  type RuleStatus,
} from '../../controllers/common/snapshot/status-report.ts';
import { SECRET } from '../../copy/model/kind.ts';
import { reachNotes } from '../output/reach-notes.ts';

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

/** A report, and what its tables say besides. */
export interface Found {
  readonly report: StatusReport;
  /** Names of the rules of all controllers, in the plural. */
  readonly ruleNames: string;
  /** Whether the copies of a rule could be listed. */
  readonly hasCounts: (rule: RuleStatus) => boolean;
}

/**
 * @param cluster host of the API server
 * @param namespace of the rules; `undefined`: all
 * @throws the errors of `api.request`
 */
export async function statusReport(snapshot: Snapshot, cluster: string, namespace: string | undefined): Promise<Found> {
  const { inventory } = snapshot;
  const readers = [...snapshot.readers].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, reader]) => reader);
  const isIncluded = (place: string): boolean => namespace === undefined || place === namespace;
  const systems = readers
    .map(({ system, collection }) => {
      const reach = collection && inventory.reaches.get(collection.kind);
      return { system, installed: reach?.extent !== 'not installed', isRare: collection?.isRare };
    })
    .filter(({ installed, isRare }) => installed || isRare !== true);
  const rules = (await ruleStatuses(snapshot, isIncluded)).map(([, rule]) => rule);
  const orphans = (await orphansIn(snapshot))
    .filter((orphan) => systems.some(({ system }) => system === orphan.system))
    // One without a readable mark belongs to the namespace that it is in.
    .filter(({ owner, namespace: place }) => isIncluded(owner === '' ? place : (owner.split('/')[0] ?? '')));
  const report: StatusReport = {
    apiVersion: 'keyferry.dev/v1',
    kind: 'Status',
    cluster,
    systems: systems.map(({ system, installed }) => ({ system, installed })),
    notes: reachNotes(inventory),
    rules: rules.toSorted(byName),
    orphans: orphans.toSorted(byName),
  };
  return {
    report,
    ruleNames: readers.map((one) => one.ruleNames).join(' and no '),
    hasCounts: ({ kind }) => kind === 'ConfigMap' || !inventory.isRefused(SECRET.kind),
  };
}

/** Whether a rule is known to have a problem. */
export function hasProblem({ ready, reason }: RuleStatus): boolean {
  return !ready && reason !== LIMITED;
}

/** Only the rules with problems, and the copies that nobody wants and nobody deletes. */
export function onlyFailed(report: StatusReport): StatusReport {
  const orphans = report.orphans.filter(({ verdict }) => verdict === 'leftover');
  return { ...report, rules: report.rules.filter((rule) => hasProblem(rule)), orphans };
}

/** `Secret default/mysecret` */
export function titleOf({ kind, namespace, name }: Pick<RuleStatus, 'kind' | 'namespace' | 'name'>): string {
  return `${kind} ${namespace}/${name}`;
}
