/** A decision as a row of `keyferry plan`. */
import { type ResourceKey, parseResourceKey } from '../../copy/model/keys.ts';
import type { Decision, Later } from '../../copy/plan/decide.ts';
import type { PlannedTarget } from './report.ts';

type Action = Pick<PlannedTarget, 'action' | 'reason' | 'lost'>;

/** @param whyUnwanted the reason of a deletion */
export function plannedAction(decision: Decision['plan'], whyUnwanted: string): Action {
  switch (decision.do) {
    case 'create':
      return { action: 'create', reason: `copy of ${sourceOf(decision.claim.source)}`, lost: false };
    case 'update':
      if (decision.withData && decision.desired.data === 'minimal') {
        const { reason, message } = decision.desired.remark ?? {
          reason: 'Cleared',
          message: 'its source does not allow it',
        };
        return { action: 'update', reason: `clears its data: ${reason}: ${message}`, lost: true };
      }
      return {
        action: 'update',
        reason: decision.withData ? 'data differ' : 'labels or annotations differ',
        lost: false,
      };
    case 'replace':
      return { action: 'replace', reason: 'it is immutable or has another type, and cannot be updated', lost: false };
    case 'delete':
      return { action: 'delete', reason: whyUnwanted, lost: true };
    case 'nothing':
      return { action: 'nothing', reason: 'up to date', lost: false };
    case 'conflict':
      return { action: 'conflict', reason: decision.message, lost: false };
    case 'wait':
    case 'fail':
      return { action: decision.do, reason: `${decision.reason}: ${decision.message}`, lost: false };
    case 'later':
      return { action: 'wait', reason: WAIT_REASONS[decision.because], lost: false };
    default:
      return decision satisfies never;
  }
}

const WAIT_REASONS: Readonly<Record<Later['because'], string>> = {
  namespace: 'its namespace is being deleted',
  owner: 'its rule is being modified; run keyferry plan again',
  changed: 'another client is modifying it; run keyferry plan again',
};

function sourceOf(source: ResourceKey | undefined): string {
  if (source === undefined) return 'nothing';
  const { namespace, name } = parseResourceKey(source);
  return `${namespace}/${name}`;
}
