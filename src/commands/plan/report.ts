/**
 * The output of `keyferry plan`. JSON and YAML have exactly these fields; fields are added, but never changed or removed. The schema
 * is docs/schemas/plan.json.
 */
import type { TargetPlace } from '../../controllers/common/snapshot/status-report.ts';

export type PlannedAction = 'create' | 'update' | 'replace' | 'delete' | 'nothing' | 'conflict' | 'wait' | 'fail';

export interface PlannedTarget extends TargetPlace {
  readonly system: string;
  readonly action: PlannedAction;
  /** The rule that decides: `SecretMirror default/mysecret-mirror`. */
  readonly rule: string;
  readonly reason: string;
  /** Data would be lost: the copy is deleted or cleared. */
  readonly lost: boolean;
}

/** A rule or manifest that is invalid. */
export interface PlannedProblem {
  readonly rule: string;
  readonly problem: string;
}

/** A remark on a rule besides its targets: why it has none, or which part the plan does not cover. */
export interface PlannedNote {
  readonly rule: string;
  readonly note: string;
}

export interface PlanReport {
  readonly apiVersion: 'keyferry.dev/v1';
  readonly kind: 'Plan';
  /** Changes and refusals; with `--all` also targets that are up to date. */
  readonly targets: readonly PlannedTarget[];
  readonly problems: readonly PlannedProblem[];
  readonly notes: readonly PlannedNote[];
  /** Targets that are up to date. */
  readonly unchanged: number;
  /** Objects in the manifests that Keyferry does not use. */
  readonly ignored: number;
}

const REFUSED: ReadonlySet<PlannedAction> = new Set(['conflict', 'fail']);

/** Whether data would be lost, or a rule refused. Decides the exit code. */
export function hasLossOrRefusal({ targets, problems }: Pick<PlanReport, 'targets' | 'problems'>): boolean {
  return problems.length > 0 || targets.some(({ action, lost }) => lost || REFUSED.has(action));
}
