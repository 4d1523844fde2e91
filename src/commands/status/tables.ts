/** The output of `keyferry status`. */
import type { FailingTarget, RuleStatus } from '../../controllers/common/snapshot/status-report.ts';
import type { StatusOptions } from '../actions.ts';
import type { Cell, Paint, Style } from '../output/styles.ts';
import { TextParts } from '../output/text-table.ts';
import { type Found, hasProblem, onlyFailed, type StatusReport, titleOf } from './report.ts';

/**
 * The report as text, with a line end.
 * @param document the report for programs
 */
export function statusText(
  { report, ...found }: Found,
  options: Pick<StatusOptions, 'output' | 'failed' | 'namespace'>,
  paint: Paint,
  document: (report: StatusReport, format: 'json' | 'yaml') => string,
): string {
  const { output, failed } = options;
  const shown = failed ? onlyFailed(report) : report;
  if (output === 'json' || output === 'yaml') return document(shown, output);
  return statusTables({ ...found, report: shown }, { ...options, isWide: output === 'wide' }, paint);
}

interface TableOptions extends Pick<StatusOptions, 'failed' | 'namespace'> {
  /** More columns, and all failing targets. */
  readonly isWide: boolean;
}

function statusTables(
  { report, ruleNames, hasCounts }: Found,
  { failed, namespace, isWide }: TableOptions,
  paint: Paint,
): string {
  const { rules, orphans, systems, notes } = report;
  const parts = new TextParts(paint);
  const missing = systems.filter(({ installed }) => !installed).map(({ system }) => system);
  const destinations = isWide ? ['DESTINATIONS'] : [];
  parts.table(
    ['SYSTEM', 'NAMESPACE', 'NAME', 'SOURCE', ...destinations, 'STATE', 'READY', 'COPIES', 'LAST SYNC', 'WHY'],
    rules.map((rule) => [
      rule.system,
      rule.namespace,
      rule.name,
      rule.source,
      ...(isWide ? [rule.destinations.join(',') || 'none'] : []),
      stateCell(rule),
      rule.ready ? 'True' : 'False',
      hasCounts(rule) ? String(rule.copies.length) : '?',
      rule.lastSyncTime ?? 'never',
      `${rule.reason}: ${rule.message}`,
    ]),
  );
  if (rules.length === 0 && (!failed || orphans.length === 0) && missing.length < systems.length) {
    const place = namespace === undefined ? '' : ` in namespace ${namespace}`;
    parts.lines([`${failed ? 'No problems' : `No ${ruleNames}`} found${place}.`]);
  }
  if (failed || isWide) {
    const failing = rules.flatMap((rule) => rule.failing.map((target) => ({ rule, target })));
    parts.table(
      ['FAILING', 'NAMESPACE', 'NAME', 'FOR', 'WHY'],
      failing.map(({ rule, target }) => [
        target.kind,
        target.namespace,
        target.name,
        titleOf(rule),
        failureCell(target),
      ]),
    );
  }
  const copies = rules.flatMap((rule) =>
    rule.copies.map(({ kind, namespace, name, sourceVersion }) => {
      return [kind, namespace, name, titleOf(rule), rule.source, sourceVersion];
    }),
  );
  if (!failed) parts.table(['COPY', 'NAMESPACE', 'NAME', 'FOR', 'OF', 'AT VERSION'], copies);
  parts.table(
    ['ORPHAN', 'NAMESPACE', 'NAME', 'MARKED BY', 'WHY'],
    orphans.map(({ kind, namespace, name, owner, reason }) => [kind, namespace, name, owner, reason]),
  );
  parts.lines(notes);
  for (const system of missing) {
    parts.lines([`The CRD of ${system} is not installed: run keyferry crds | kubectl apply --server-side -f -`]);
  }
  return parts.toString();
}

/** States that end by themselves. */
const PASSING: ReadonlySet<string> = new Set(['Pending', 'Waiting', 'Outdated', 'Unknown', 'Deleting']);

function stateCell(rule: RuleStatus): Cell {
  const { state, ready } = rule;
  if (ready) return { text: state, style: 'good' };
  return { text: state, style: PASSING.has(state) || !hasProblem(rule) ? 'waiting' : 'bad' };
}

/** The cell for why a target is not up to date. */
export function failureCell({ state, reason, message }: Pick<FailingTarget, 'state' | 'reason' | 'message'>): {
  readonly text: string;
  readonly style: Style;
} {
  const text = message === '' ? reason : `${reason}: ${message}`;
  return { text, style: state === 'pending' || state === 'waiting' ? 'waiting' : 'bad' };
}
