/** The targets of a rule that are not as they should be. */
import type { RuleKey } from '../../copy/model/keys.ts';
import { parseResourceKey } from '../../copy/model/keys.ts';
import { VAULT_NOT_READ } from '../look/inventory.ts';
import type { Look } from '../look/look.ts';
import { byName, type FailingTarget } from './report.ts';

/** @param look with this rule settled */
export function failingOf(look: Look, rule: RuleKey): FailingTarget[] {
  const failing: FailingTarget[] = [];
  for (const { claim, outcome } of look.claims.book.of(rule)) {
    const { state, reason, message } = outcome;
    if (state === 'synced' || state === 'released') continue;
    const { kind, namespace, name } = parseResourceKey(claim.target);
    const place = { kind, namespace, name };
    if (state === 'waiting' && claim.source === undefined && reason === VAULT_NOT_READ.reason) {
      // Of a copy that is there it cannot be told here whether it holds what Vault has.
      if (look.inventory.objects.has(claim.target)) continue;
      failing.push({ ...place, state, reason: 'Missing', message: 'the copy does not exist yet' });
    } else if (state === 'pending') {
      const { plan } = look.decisionOn(claim.target);
      failing.push({ ...place, state, reason: 'Outdated', message: `Keyferry will ${verbOf(plan.do)} it` });
    } else {
      failing.push({ ...place, state, reason, message });
    }
  }
  return failing.toSorted(byName);
}

function verbOf(action: string): string {
  return action === 'later' ? 'look again at' : action;
}
