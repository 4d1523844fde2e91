/** Conditions in the status of a rule. Pure. */
import { clipped } from '../../../runtime/text/clipped.ts';
import { rfc3339 } from '../../../runtime/text/rfc3339.ts';

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

/** Longest message that the API accepts, characters. */
const MAX_MESSAGE = 32_768;

/**
 * The next state of a condition. It keeps the time of the last transition while its status is the same.
 * @param before the present state
 * @param generation that of the object as it was evaluated
 * @param now wall clock, ms
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

/** Compares everything except `lastTransitionTime`. */
export function sameConditions(a: readonly Condition[] | undefined, b: readonly Condition[] | undefined): boolean {
  return JSON.stringify(a?.map(comparable) ?? []) === JSON.stringify(b?.map(comparable) ?? []);
}

function comparable({ type, status, observedGeneration, reason, message }: Condition): unknown {
  return [type, status, observedGeneration, reason, message];
}
