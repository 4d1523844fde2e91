/** What `keyferry plan` tells, whatever system it is of. The JSON output is this, as it stands; fields are only ever added. */

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
}

/** A rule that could not be carried out as it is written. */
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
  readonly targets: readonly PlannedTarget[];
  readonly problems: readonly PlannedProblem[];
  readonly notes: readonly PlannedNote[];
  /** Objects of the manifests that have nothing to do with Keyferry. */
  readonly ignored: number;
}
