/** What `keyferry plan` says of one decision: the action, why, and whether data would be lost. */
import type { PlanReport } from '../../../scripts/reports/schemas.ts';
import { because, withReason } from '../../copy/model/cause.ts';
import { listedIn } from '../../copy/model/claim.ts';
import { splitKeys } from '../../copy/model/content.ts';
import { parseResourceKey, type ResourceKey } from '../../copy/model/keys.ts';
import { PLACE_ANNOTATION } from '../../copy/model/observed.ts';
import { REASONS } from '../../copy/model/reasons.ts';
import type { Decision, Later } from '../../copy/plan/decide.ts';
import type { Facts, WritePlan } from '../../copy/plan/facts.ts';
import { command } from '../../runtime/text/command.ts';

type PlannedTarget = PlanReport['targets'][number];

/** The action for a copy that an original made, and that only gets Keyferry's mark; `undefined`: it is no such copy. */
export function adopted({ facts: { observed }, plan }: Decision): Pick<PlannedTarget, 'action' | 'reason'> | undefined {
  if (plan.do !== 'update' || plan.withData || plan.claim.mode !== 'own' || observed === undefined) return undefined;
  if (PLACE_ANNOTATION in observed.annotations) return undefined;
  return {
    action: 'adopt',
    reason: `an original made it from ${sourceOf(plan.claim.source)}; it gets the mark of Keyferry`,
  };
}

type Action = Pick<PlannedTarget, 'action' | 'reason' | 'lost'>;

/** @param whyUnwanted why the target would be deleted, if it would be */
export function plannedAction({ facts, plan: decision }: Decision, whyUnwanted: string): Action {
  switch (decision.do) {
    case 'create':
      return { action: 'create', reason: `copy of ${sourceOf(decision.claim.source)}`, lost: false };
    case 'update':
      if (decision.withData && decision.desired.data === 'minimal') {
        const why = withReason(decision.desired.remark ?? because('Cleared'));
        return { action: 'update', reason: `clears its data: ${why}`, lost: true };
      }
      return withLoss('update', decision.withData ? 'data differ' : 'labels or annotations differ', facts, decision);
    case 'replace':
      return withLoss('replace', 'it is immutable or has another type, and cannot be updated', facts, decision);
    case 'delete':
      return { action: 'delete', reason: whyUnwanted, lost: true };
    case 'nothing':
      return { action: 'nothing', reason: 'up to date', lost: false };
    case 'conflict':
      return { action: 'conflict', reason: decision.message, lost: false };
    case 'wait':
    case 'fail':
      return { action: decision.do, reason: withReason(decision), lost: false };
    case 'later':
      return { action: 'wait', reason: WAIT_REASONS[decision.because], lost: false };
    default:
      return decision satisfies never;
  }
}

/** Says which keys a copy has now that its source has not. */
function withLoss(action: 'update' | 'replace', reason: string, facts: Facts, { claim, desired }: WritePlan): Action {
  const { held, observed } = facts;
  const after = splitKeys(facts.fingerprintOf(claim)?.keys ?? '') ?? [];
  const before =
    desired.merged && observed
      ? listedIn(desired.merged, observed)
      : (splitKeys(held?.fingerprint.keys ?? observed?.ownKeys ?? '') ?? []);
  const lost = desired.data === 'source' ? before.filter((key) => !after.includes(key)) : [];
  if (lost.length === 0) return { action, reason, lost: false };
  return { action, reason: `${reason}; loses ${lost.length === 1 ? 'key' : 'keys'} ${lost.join(', ')}`, lost: true };
}

const WAIT_REASONS: Readonly<Record<Later['because'], string>> = {
  namespace: REASONS.NamespaceTerminating.says,
  owner: `its rule is being modified; run ${command('plan')} again`,
  changed: `another client is modifying it; run ${command('plan')} again`,
};

function sourceOf(source: ResourceKey | undefined): string {
  if (source === undefined) return 'nothing';
  const { namespace, name } = parseResourceKey(source);
  return `${namespace}/${name}`;
}
