/** The output of `keyferry migrate` for people. */
import { copiesText } from '../output/copies-text.ts';
import { hasLossOrRefusal } from '../plan/report.ts';
import type { Cell, Paint, Style } from '../output/styles.ts';
import { TextParts } from '../output/text-table.ts';
import { MIGRATED_PROGRAMS } from '../../config/migrated-programs.ts';
import type { Verdict } from '../../controllers/common/migration.ts';
import type { MigrationFinding, MigrationReport, MigrationProgram } from './report.ts';

const STYLES: Readonly<Record<Verdict, Style>> = {
  change: 'good',
  manual: 'waiting',
  difference: 'waiting',
  leftover: 'waiting',
  unsupported: 'bad',
};

/** @param isApplied `--apply` was given. @returns with a line end */
export function migrationText(report: MigrationReport, isApplied: boolean, paint: Paint): string {
  const { programs, targets, unchanged, notes } = report;
  const parts = new TextParts(paint);
  if (programs.length === 0) parts.lines([`No objects of these programs: ${MIGRATED_PROGRAMS.join(', ')}.`]);
  for (const one of programs) {
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
  parts.lines([...notes, ...endOf(programs, unchanged, isApplied)]);
  return parts.toString();
}

function headOf({ program, rules, copies }: MigrationProgram): string {
  return `${program}: ${rules} ${rules === 1 ? 'object requests' : 'objects request'} copies, ${copiesText(copies)}`;
}

type Shown = Omit<MigrationFinding, 'object'>;

function verdictCell({ verdict, result }: Shown): Cell {
  if (result === null) return { text: verdict, style: STYLES[verdict] };
  return { text: result, style: result === 'written' || result === 'deleted' ? 'good' : 'bad' };
}

function whatOf({ text, error }: Shown): string {
  return error === null ? text : `${text}: ${error}`;
}

function endOf(programs: readonly MigrationProgram[], unchanged: number, isApplied: boolean): string[] {
  const lines: string[] = [];
  if (unchanged > 0) lines.push(`${copiesText(unchanged)} ${unchanged === 1 ? 'keeps its' : 'keep their'} data.`);
  for (const { program, findings } of programs) {
    const changes = findings.filter(({ verdict }) => verdict === 'change').length;
    if (isApplied || changes === 0) continue;
    const text = changes === 1 ? 'the change' : `the ${changes} changes`;
    lines.push(`To write ${text} of ${program}: keyferry migrate --from ${program} --apply`);
  }
  return lines;
}
