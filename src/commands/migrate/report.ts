/**
 * The output of `keyferry migrate`. JSON and YAML have exactly these fields; fields are added, but never changed or removed. The schema
 * is docs/schemas/migrate.json.
 */
import { EXIT_DONE, EXIT_FAILED, EXIT_LOSS_OR_REFUSAL } from '../output/exit-codes.ts';
import { hasLossOrRefusal, type PlannedTarget } from '../plan/report.ts';
import type { MigratedProgram } from '../../config/migrated-programs.ts';
import type { Place, Verdict } from '../../controllers/common/migration.ts';

export interface MigrationFinding {
  readonly verdict: Verdict;
  readonly object: Place;
  readonly text: string;
  /** Of a change: the annotations that are added; `null` for other writes, and for what is no change. */
  readonly annotations: Readonly<Record<string, string>> | null;
  /** Of a change or a leftover. `null`: nothing was done, because it was not asked for, or because nothing is to be done. */
  readonly result: 'written' | 'deleted' | 'failed' | 'skipped' | null;
  /** Why it failed or was skipped. */
  readonly error: string | null;
}

export interface MigrationProgram {
  readonly program: MigratedProgram;
  /** Objects that request copies. */
  readonly rules: number;
  /** Objects that the other program made or fills. */
  readonly copies: number;
  /** Deployments in which it runs: `<namespace>/<name>`. */
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
  const open = new Set<Verdict>(['manual', 'unsupported', 'leftover']);
  const needsHelp = findings.some(({ verdict, result }) => open.has(verdict) && result !== 'deleted');
  return needsHelp || hasLossOrRefusal({ targets, problems: [] }) ? EXIT_LOSS_OR_REFUSAL : EXIT_DONE;
}
