/**
 * The output of `keyferry migrate`: its report, the exit code, and tables for people. JSON and YAML have exactly the
 * report's fields. Later versions may add fields, but change and remove none. The schema is docs/schemas/migrate.json.
 */
import type { MigrationReport } from '../../../scripts/reports/schemas.ts';
import { EXIT_DONE, EXIT_FAILED, EXIT_LOSS_OR_REFUSAL, type MigrateOptions } from '../actions.ts';
import { addTargets, hasLossOrRefusal } from '../plan/rows.ts';
import { command } from '../../runtime/text/command.ts';
import { MIGRATED_PROGRAMS } from '../../config/migrated-programs.ts';
import type { FindingVerdict } from './program.ts';
import { copiesText, TextParts } from '../output/text.ts';
import type { Cell, Paint, Style } from '../output/terminal.ts';

export type MigrationProgram = MigrationReport['programs'][number];
export type MigrationFinding = MigrationProgram['findings'][number];

/** 1: a write failed. 3: a copy would be lost or refused, or a finding (but no deleted leftover) needs a decision. */
export function exitCodeOf({ programs, targets }: Pick<MigrationReport, 'programs' | 'targets'>): number {
  const findings = programs.flatMap((one) => one.findings);
  if (findings.some(({ result }) => result === 'failed')) return EXIT_FAILED;
  const open = new Set<FindingVerdict>(['manual', 'unsupported', 'leftover']);
  const needsHelp = findings.some(({ verdict, result }) => open.has(verdict) && result !== 'deleted');
  return needsHelp || hasLossOrRefusal({ targets, problems: [] }) ? EXIT_LOSS_OR_REFUSAL : EXIT_DONE;
}

const STYLES: Readonly<Record<FindingVerdict, Style>> = {
  change: 'good',
  manual: 'waiting',
  difference: 'waiting',
  leftover: 'waiting',
  unsupported: 'bad',
};

/** @param options the options of the command @returns the report as text. It ends with a line break */
export function migrationText(
  report: MigrationReport,
  { from, apply }: Pick<MigrateOptions, 'from' | 'apply'>,
  paint: Paint,
): string {
  const { programs, targets, unchanged, notes } = report;
  const parts = new TextParts(paint);
  if (programs.length === 0) {
    parts.lines([`No objects of ${from ?? `these programs: ${MIGRATED_PROGRAMS.join(', ')}`}.`]);
  }
  for (const one of programs) {
    parts.lines([paint(headOf(one), 'title'), ...one.running.map((name) => `It runs as Deployment ${name}.`)]);
    parts.table(
      ['VERDICT', 'KIND', 'NAMESPACE', 'NAME', 'WHAT'],
      one.findings.map(({ object: { kind, namespace, name }, ...finding }) => {
        return [verdictCell(finding), kind, namespace, name, whatOf(finding)];
      }),
    );
  }
  if (targets.length > 0) parts.lines([paint('What Keyferry does when it starts:', 'title')]);
  addTargets(parts, targets);
  parts.lines([...notes, ...endOf(programs, unchanged, apply)]);
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
    lines.push(`To write ${text} of ${program}: ${command(`migrate --from ${program} --apply`)}`);
  }
  return lines;
}
