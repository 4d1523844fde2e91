/** Makes the report of `keyferry status` from a snapshot, and the tables for people. */
import { noOrGoingNamespace } from '../../copy/model/reasons.ts';
import { byName } from '../snapshot/places.ts';
import { LIMITED } from '../snapshot/rule-state.ts';
import { orphansIn, type RuleStatus, ruleStatuses } from '../snapshot/status-report.ts';
import type { Snapshot } from '../snapshot/snapshot.ts';
import { lacksNamespace, coverageNotes } from '../output/reading.ts';
import type { StatusOptions } from '../actions.ts';
import type { Style } from '../output/terminal.ts';
import type { Leaders } from './leaders.ts';
import type { StatusReport } from '../../../scripts/reports/schemas.ts';

/** The report, and facts that only the tables show. */
export interface StatusFindings {
  readonly report: StatusReport;
  /** What the rules of all controllers are called, in the plural: `SecretMirrors, …`. */
  readonly ruleNames: string;
  /** Whether the namespace of the rules does not exist. */
  readonly isMissing: boolean;
}

/**
 * @param cluster host of the API server
 * @throws the errors of `api.request`
 */
export async function statusReport(
  snapshot: Snapshot,
  cluster: string,
  { namespace, orphans: isOrphans }: Pick<StatusOptions, 'namespace' | 'orphans'>,
  { leaders, note, running }: Leaders & { readonly running: readonly string[] },
): Promise<StatusFindings> {
  const { inventory } = snapshot;
  const readers = [...snapshot.readers].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, reader]) => reader);
  const isIncluded = (place: string): boolean => namespace === undefined || place === namespace;
  const systems = readers
    .map(({ system, collection }) => {
      const installed = collection === undefined || inventory.isInstalled(collection.kind);
      return { system, installed, isRare: collection?.isRare };
    })
    .filter(({ installed, isRare }) => installed || isRare !== true);
  const rules = isOrphans ? [] : (await ruleStatuses(snapshot, isIncluded)).map(([, rule]) => rule);
  const orphans = (await orphansIn(snapshot))
    .filter((orphan) => systems.some(({ system }) => system === orphan.system))
    // If the owner in the mark is unknown, the orphan is included by its own namespace.
    .filter(({ owner, namespace: place }) => isIncluded(owner === '' ? place : (owner.split('/')[0] ?? '')));
  const isMissing = namespace !== undefined && lacksNamespace(snapshot, namespace);
  const missing = isMissing ? [noOrGoingNamespace(namespace)] : [];
  const outdated = rules.flatMap(({ failing }) => failing.filter(({ state }) => state === 'pending')).length;
  const doubt = outdated > 0 ? `write the Outdated targets (${outdated}, see --failed)` : 'delete these orphans';
  const isDoubted = outdated > 0 || orphans.some(({ action }) => action === 'delete');
  const flags = `Whether Keyferry will ${doubt} depends on its flags: give this command the same flags`;
  const report: StatusReport = {
    apiVersion: 'keyferry.dev/v1',
    kind: 'Status',
    cluster,
    systems: systems.map(({ system, installed }) => ({ system, installed })),
    leaders,
    notes: [
      ...running,
      ...coverageNotes(snapshot),
      ...missing,
      ...(isDoubted ? [flags] : []),
      ...(note === undefined ? [] : [note]),
    ],
    namespaces: inventory.isWhole ? namespacesOf(snapshot) : null,
    rules: rules.toSorted(byName),
    orphans: orphans.toSorted(byName),
  };
  return {
    report,
    ruleNames: readers.map((one) => one.ruleNames).join(', '),
    isMissing,
  };
}

function namespacesOf(snapshot: Snapshot): StatusReport['namespaces'] {
  const { namespaces } = snapshot.inventory;
  return Array.from([...namespaces.names()].toSorted(), (name) => {
    const acceptFrom = namespaces.factsOf(name)?.acceptFrom;
    const closed = snapshot.limitOn(name)?.message;
    return { name, ...(acceptFrom !== undefined && { acceptFrom }), ...(closed !== undefined && { closed }) };
  });
}

/** Whether a rule has a known problem, or is ready but has a mistake (a warning). */
export function hasProblem(rule: RuleStatus): boolean {
  return rule.warnings.length > 0 || isNotReady(rule);
}

/** Whether a rule is known not to be ready. */
export function isNotReady({ ready, reason }: RuleStatus): boolean {
  return !ready && reason !== LIMITED;
}

/** The report with only the rules that have problems, and of the orphans only those that are to be deleted. */
export function onlyFailed(report: StatusReport): StatusReport {
  const orphans = report.orphans.filter(({ verdict, action }) => verdict === 'leftover' || action === 'delete');
  return { ...report, rules: report.rules.filter((rule) => hasProblem(rule)), orphans };
}

/** States that end without help of a user. */
const PASSING: ReadonlySet<string> = new Set(['Pending', 'Waiting', 'Outdated', 'Unknown', 'Deleting']);

/** Whether the state of a rule ends without help of a user. */
export function isPassing({ state }: Pick<RuleStatus, 'state'>): boolean {
  return PASSING.has(state);
}

export function styleOf(rule: RuleStatus): Style {
  if (rule.ready) return 'good';
  return isPassing(rule) || !hasProblem(rule) ? 'waiting' : 'bad';
}

/** The cell that says why a target is not up to date, and its color. */
export function failureCell({ state, reason, message }: Pick<RuleStatus, 'state' | 'reason' | 'message'>): {
  readonly text: string;
  readonly style: Style;
} {
  const text = message === '' ? reason : `${reason}: ${message}`;
  return { text, style: state === 'pending' || state === 'waiting' ? 'waiting' : 'bad' };
}
