/** The targets of a rule that are not up to date. */
import type { RuleKey } from '../../../copy/model/keys.ts';
import { parseResourceKey } from '../../../copy/model/keys.ts';
import { VAULT_NOT_READ } from './inventory.ts';
import type { Snapshot } from './snapshot.ts';
import { byName, type FailingTarget } from './status-report.ts';

/** @param snapshot with the outcomes of the rule */
export function failingOf(snapshot: Snapshot, rule: RuleKey): FailingTarget[] {
  const failing: FailingTarget[] = [];
  for (const { claim, outcome } of snapshot.claims.book.of(rule)) {
    const { state, reason, message } = outcome;
    if (state === 'synced' || state === 'released') continue;
    const { kind, namespace, name } = parseResourceKey(claim.target);
    const place = { kind, namespace, name };
    if (state === 'waiting' && claim.source === undefined && reason === VAULT_NOT_READ.reason) {
      // Without reading Vault, nothing is known of the content of a copy.
      if (snapshot.inventory.objects.has(claim.target)) continue;
      failing.push({ ...place, state, reason: 'Missing', message: 'the copy does not exist yet' });
    } else if (state === 'pending') {
      const { plan } = snapshot.decisionOn(claim.target);
      failing.push({
        ...place,
        state,
        reason: 'Outdated',
        message: plan.do === 'later' ? 'changed while it was read' : `Keyferry will ${plan.do} it`,
      });
    } else {
      failing.push({ ...place, state, reason, message });
    }
  }
  return failing.toSorted(byName);
}
