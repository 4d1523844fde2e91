/**
 * The output of `keyferry migrate`: its report, the exit code, and the tables for people. JSON and YAML have exactly these fields; fields are
 * added, but never changed or removed. The schema is docs/schemas/migrate.json. Pure.
 */
import { EXIT_DONE, EXIT_FAILED, EXIT_LOSS_OR_REFUSAL, type MigrateOptions } from '../actions.ts';
import { addTargets, hasLossOrRefusal, type PlannedTarget } from '../plan/rows.ts';
import { command } from '../../runtime/text/command.ts';
import { MIGRATED_PROGRAMS, type MigratedProgram } from '../../config/migrated-programs.ts';
import type { Finding, FindingVerdict, ProgramFindings } from '../../controllers/common/migration.ts';
import { copiesText, TextParts } from '../output/text.ts';
import type { Cell, Paint, Style } from '../output/terminal.ts';

export interface MigrationFinding extends Finding {
  /** Of a change: the annotations that are added; `null` for other writes, and for what is no change. */
  readonly annotations: Readonly<Record<string, string>> | null;
  /** Of a change or a leftover. `null`: nothing was done, because it was not asked for, or because nothing is to be done. */
  readonly result: 'written' | 'deleted' | 'failed' | 'skipped' | null;
  /** Why it failed or was skipped. */
  readonly error: string | null;
}

export interface MigrationProgram extends Pick<ProgramFindings, 'rules' | 'copies'> {
  readonly program: MigratedProgram;
  /** Deployments in which the program runs: `<namespace>/<name>`. */
  readonly running: readonly string[];
  readonly findings: readonly MigrationFinding[];
}

export interface MigrationReport {
  readonly apiVersion: 'keyferry.dev/v1';
  readonly kind: 'Migration';
  /** Host of the API server. */
  readonly cluster: string;
  /** Those that have objects in the cluster, or run there. */
  readonly programs: readonly MigrationProgram[];
  /** What Keyferry will do when it starts, with the changes. Copies that keep their data are left out. */
  readonly targets: readonly PlannedTarget[];
  /** Number of copies that keep their data. */
  readonly unchanged: number;
  /** Parts of the cluster that could not be read. */
  readonly notes: readonly string[];
}

/** 3: somebody has to decide something. What was deleted on request is no longer open. */
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

/** @param options what was asked for. @returns with a line end */
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
