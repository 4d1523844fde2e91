/** The state of a rule as `status` shows it. */
import type { StatusReport } from '../../../scripts/reports/schemas.ts';
import type { Condition } from '../../copy/engine/life/condition.ts';
import { because, type Cause, withReason } from '../../copy/model/cause.ts';
import type { Reason } from '../../copy/model/reasons.ts';
import type { KubeObject } from '../../kube/api.ts';

export type RuleState = Pick<StatusReport['rules'][number], 'state' | 'ready' | 'reason' | 'message'>;

interface WithConditions extends KubeObject {
  readonly status?: { readonly observedGeneration?: number; readonly conditions?: readonly Condition[] };
}

/** The reason of a rule whose state the caller has no permission to read. Such a rule does not count as a problem. */
export const LIMITED = 'Limited' satisfies Reason;

export function notReady(state: string, { reason, message }: Pick<Cause, 'reason' | 'message'>): RuleState {
  return { state, ready: false, reason, message };
}

/** The condition of a type; `undefined`: the object has no such condition for its present spec. */
export function currentCondition({ metadata, status }: WithConditions, type: string): Condition | undefined {
  const isCurrent = metadata.generation === undefined || status?.observedGeneration === metadata.generation;
  return isCurrent ? status?.conditions?.find((one) => one.type === type) : undefined;
}

/** The state of a custom resource from one condition. @param state its `RuleStatus.state` if it is not being deleted */
export function stateByCondition(object: WithConditions, type: string, state: string): RuleState {
  const { metadata, status } = object;
  const condition = currentCondition(object, type);
  if (metadata.deletionTimestamp !== undefined) {
    // A condition from before the deletion does not explain why the deletion waits.
    const isExplained = condition?.status === 'False' || condition?.reason === 'Terminating';
    const details = isExplained ? `; ${withReason(condition)}` : '';
    return notReady('Deleting', because('Deleting', `since ${metadata.deletionTimestamp}${details}`));
  }
  if (condition === undefined) {
    const isSeen = status?.conditions?.some((one) => one.type === type) === true;
    return notReady(state, because(isSeen ? 'Outdated' : 'NotSeen'));
  }
  return { state, ready: condition.status === 'True', reason: condition.reason, message: condition.message };
}
