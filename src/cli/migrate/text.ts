/** The output of `keyferry migrate` for people. */
import { copiesText } from '../copies-text.ts';
import { hasLossOrRefusal } from '../plan/report.ts';
import type { Cell, Paint, Style } from '../styles.ts';
import { TextParts } from '../text-table.ts';
import type { Verdict } from './model.ts';
import type { MigrationFinding, MigrationReport, MigrationSystem } from './report.ts';

const STYLES: Readonly<Record<Verdict, Style>> = {
  change: 'good',
  manual: 'waiting',
  difference: 'waiting',
  leftover: 'waiting',
  unsupported: 'bad',
};

/** @param isApplied `--apply` was given. @returns with a line end */
export function migrationText(report: MigrationReport, isApplied: boolean, paint: Paint): string {
  const { systems, targets, unchanged, notes } = report;
  const parts = new TextParts(paint);
  if (systems.length === 0)
    parts.lines(['No objects of mirrors, k8s-replicator, KubeLB, reflector, kubernetes-replicator or config-syncer.']);
  for (const one of systems) {
    parts.lines([paint(headOf(one), 'title'), ...one.running.map((name) => `It runs as Deployment ${name}.`)]);
    parts.table(
      ['VERDICT', 'KIND', 'NAMESPACE', 'NAME', 'WHAT'],
      one.findings.map(({ object: { kind, namespace, name }, ...finding }) => {
        return [verdictCell(finding), kind, namespace, name, whatOf(finding)];
      }),
    );
  }
  const rows = targets.map((target) => {
    const { action, kind, namespace, name, rule, reason } = target;
    const isBad = hasLossOrRefusal({ targets: [target], problems: [] });
    return [isBad ? ({ text: action, style: 'bad' } as const) : action, kind, namespace, name, rule, reason];
  });
  if (rows.length > 0) parts.lines([paint('What Keyferry does when it starts:', 'title')]);
  parts.table(['ACTION', 'KIND', 'NAMESPACE', 'NAME', 'FOR', 'WHY'], rows);
  parts.lines([...notes, ...endOf(systems, unchanged, isApplied)]);
  return parts.toString();
}

function headOf({ system, rules, copies }: MigrationSystem): string {
  return `${system}: ${rules} ${rules === 1 ? 'object requests' : 'objects request'} copies, ${copiesText(copies)}`;
}

type Shown = Omit<MigrationFinding, 'object'>;

function verdictCell({ verdict, result }: Shown): Cell {
  if (result === null) return { text: verdict, style: STYLES[verdict] };
  return { text: result, style: result === 'written' ? 'good' : 'bad' };
}

function whatOf({ text, error }: Shown): string {
  return error === null ? text : `${text}: ${error}`;
}

function endOf(systems: readonly MigrationSystem[], unchanged: number, isApplied: boolean): string[] {
  const lines: string[] = [];
  if (unchanged > 0) lines.push(`${copiesText(unchanged)} ${unchanged === 1 ? 'keeps its' : 'keep their'} data.`);
  for (const { system, findings } of systems) {
    const changes = findings.filter(({ verdict }) => verdict === 'change').length;
    if (isApplied || changes === 0) continue;
    const text = changes === 1 ? 'the change' : `the ${changes} changes`;
    lines.push(`To write ${text} of ${system}: keyferry migrate --from ${system} --apply`);
  }
  return lines;
}
