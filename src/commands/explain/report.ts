/**
 * The output of `keyferry explain`. JSON and YAML have exactly these fields; fields are added, but never changed or removed. The schema is
 * docs/schemas/explain.json.
 */
import type { RuleStatus, TargetPlace } from '../../controllers/common/snapshot/status-report.ts';
import type { PlannedAction } from '../plan/report.ts';
import type { Writer } from './stored-object.ts';

/**
 * - `copy`: a rule claims it, and it has the mark of that rule. `filled`: an object of a user, and a rule fills its data.
 * - `conflict`: a rule claims it, but it is another's. `missing`: a rule claims it, but it does not exist.
 * - `orphan`: it has the mark of a rule that does not claim it.
 * - `rule`: a rule, and no copy. `source`: no copy, and a rule makes copies of it.
 * - `unrelated`: it exists, and Keyferry has nothing to do with it. `absent`: it does not exist, and no rule claims it.
 * - `unknown`: the permissions of the caller do not show whether it exists.
 */
export type Verdict =
  | 'copy'
  | 'filled'
  | 'conflict'
  | 'missing'
  | 'orphan'
  | 'rule'
  | 'source'
  | 'unrelated'
  | 'absent'
  | 'unknown';

/** A rule that claims the object. */
export interface ExplainedClaim {
  readonly system: string;
  /** `SecretMirror default/mysecret-mirror` */
  readonly rule: string;
  /** As in `RuleStatus`; `null`: not known. */
  readonly source: string | null;
  readonly destinations: readonly string[];
  readonly state: 'pending' | 'synced' | 'waiting' | 'conflict' | 'error' | 'released';
  readonly reason: string;
  readonly message: string;
}

/** A rule that makes objects of this kind and name, but not this one. */
export interface OtherRule extends Pick<ExplainedClaim, 'system' | 'rule' | 'source' | 'destinations'> {
  readonly why: string;
}

export interface Explanation {
  readonly apiVersion: 'keyferry.dev/v1';
  readonly kind: 'Explanation';
  /** Host of the API server. */
  readonly cluster: string;
  readonly object: TargetPlace & {
    /** `null`: not known. */
    readonly exists: boolean | null;
    /** RFC 3339; `null`: it does not exist. */
    readonly created: string | null;
    readonly deleting: boolean;
  };
  readonly verdict: Verdict;
  /** The verdict in one sentence. */
  readonly summary: string;
  /** The rule that has the object, or would get it. */
  readonly owner: string | null;
  /** Of the owner. */
  readonly source: string | null;
  /** The version of the source that the object holds, and the present one. `null`: none, or not known. */
  readonly heldVersion: string | null;
  readonly sourceVersion: string | null;
  /** What Keyferry would do with it now; `null`: no rule concerns it. */
  readonly next: { readonly action: PlannedAction; readonly reason: string } | null;
  /** When Keyferry last wrote it; `null`: never, or not known. */
  readonly lastWritten: string | null;
  /** The newest first. */
  readonly writers: readonly Writer[];
  readonly claims: readonly ExplainedClaim[];
  readonly others: readonly OtherRule[];
  /** The object as a rule; `null`: it is none. */
  readonly rule: RuleStatus | null;
  /** The rules that make copies of it. */
  readonly sourceOf: readonly { readonly rule: string; readonly copies: number }[];
  readonly notes: readonly string[];
}
