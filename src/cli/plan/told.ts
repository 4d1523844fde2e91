/** What a decision of `plan` is in the words of `keyferry plan`. */
import { type HolderKey, parseHolderKey } from '../../copy/keys.ts';
import type { Plan } from '../../copy/plan.ts';
import type { PlannedTarget } from './report.ts';

/** @param marker who the target says that it is of */
export function told(decision: Plan, marker: string): Pick<PlannedTarget, 'action' | 'reason'> {
  switch (decision.do) {
    case 'create':
      return { action: 'create', reason: `copy of ${sourceOf(decision.claim.source)}` };
    case 'update':
      return { action: 'update', reason: decision.withData ? 'the data differ' : 'labels or annotations differ' };
    case 'replace':
      return { action: 'replace', reason: 'it cannot be changed: it is immutable or of another type' };
    case 'delete':
      return { action: 'delete', reason: `${marker} does not want it` };
    case 'nothing':
      return { action: 'nothing', reason: 'as it should be' };
    case 'conflict':
      return { action: 'conflict', reason: decision.message };
    case 'wait':
    case 'fail':
      return { action: decision.do, reason: `${decision.reason}: ${decision.message}` };
    case 'need':
      return { action: 'wait', reason: `the ${decision.fact} would have to be looked up` };
    default:
      return decision satisfies never;
  }
}

function sourceOf(source: HolderKey | undefined): string {
  if (source === undefined) return 'nothing';
  const { namespace, name } = parseHolderKey(source);
  return `${namespace}/${name}`;
}
