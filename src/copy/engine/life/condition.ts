/** Conditions in the status of a rule, as `metav1.Condition`. Pure. */
import { isDeepStrictEqual } from 'node:util';
import { clipped, rfc3339 } from '../../../runtime/text/texts.ts';

/** `metav1.Condition`. */
export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly observedGeneration?: number;
  /** RFC 3339. */
  readonly lastTransitionTime: string;
  readonly reason: string;
  readonly message: string;
}

/** The status of a rule. */
export interface RuleStatus {
  readonly conditions?: readonly Condition[];
}

/** Longest message that the API accepts, characters. */
const MAX_MESSAGE = 32_768;

/**
 * Makes the next state of a condition. `lastTransitionTime` changes only if `status` changes.
 * @param before the present state; `undefined`: the object does not have this condition yet
 * @param generation the generation of the evaluated object. @param now wall clock, ms
 */
export function nextCondition(
  before: Condition | undefined,
  { type, status, reason, message }: Pick<Condition, 'type' | 'status' | 'reason' | 'message'>,
  generation: number | undefined,
  now: number,
  maxMessage = MAX_MESSAGE,
): Condition {
  return {
    type,
    status,
    ...(generation === undefined ? {} : { observedGeneration: generation }),
    lastTransitionTime: before?.status === status ? before.lastTransitionTime : rfc3339(now),
    reason,
    message: clipped(message, maxMessage),
  };
}

/**
 * Whether two statuses are equal for users: of the conditions, only the own ones count, without `lastTransitionTime`.
 * @param own the types of the conditions that Keyferry writes; all others belong to other clients
 */
export function sameStatus(a: RuleStatus, b: RuleStatus, own: ReadonlySet<string>): boolean {
  return isDeepStrictEqual(comparable(a, own), comparable(b, own));
}

function comparable({ conditions = [], ...status }: RuleStatus, own: ReadonlySet<string>): unknown {
  return { ...status, conditions: conditions.filter(({ type }) => own.has(type)).map(withoutTime) };
}

function withoutTime(condition: Condition): unknown {
  return { ...condition, lastTransitionTime: undefined };
}
