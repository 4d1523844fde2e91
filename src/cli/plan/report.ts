/**
 * What `keyferry plan` tells, whatever system it is of. The JSON and YAML output is this, as it stands; fields are only ever
 * added. Its schema is docs/schemas/plan.json.
 */

export type PlannedAction = 'create' | 'update' | 'replace' | 'delete' | 'nothing' | 'conflict' | 'wait' | 'fail';

export interface PlannedTarget {
  readonly system: string;
  readonly action: PlannedAction;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** The rule that decides: `SecretMirror default/mysecret-mirror`. */
  readonly rule: string;
  readonly reason: string;
  /** Whether data would be gone: a copy that is deleted, or cleared. */
  readonly lost: boolean;
}

/** A rule or manifest that could not be carried out as it is written. */
export interface PlannedProblem {
  readonly rule: string;
  readonly problem: string;
}

/** What is to be known of a rule beside its targets: why it has none, or what no plan can tell. */
export interface PlannedNote {
  readonly rule: string;
  readonly note: string;
}

export interface PlanReport {
  readonly apiVersion: 'keyferry.dev/v1';
  readonly kind: 'Plan';
  /** What would change, and what would be refused; with `--all` also what stays as it is. */
  readonly targets: readonly PlannedTarget[];
  readonly problems: readonly PlannedProblem[];
  readonly notes: readonly PlannedNote[];
  /** Targets that concern the manifests and stay as they are. */
  readonly unchanged: number;
  /** Objects of the manifests that have nothing to do with Keyferry. */
  readonly ignored: number;
}

const REFUSED: ReadonlySet<PlannedAction> = new Set(['conflict', 'fail']);

/** Whether something would be lost or refused: what the exit code tells. */
export function isAlarming({ targets, problems }: Pick<PlanReport, 'targets' | 'problems'>): boolean {
  return problems.length > 0 || targets.some(({ action, lost }) => lost || REFUSED.has(action));
}
