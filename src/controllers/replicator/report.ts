/** What a rule's user is told: refusals and failures, by reason, each naming what it is about. Pure. */
import type { Entry } from '../../copy/plan/claim-book.ts';
import { parseResourceKey } from '../../copy/model/keys.ts';
import type { Refusal } from './annotations.ts';

export interface ReplicatorEvent {
  readonly type: 'Warning';
  readonly reason: string;
  readonly message: string;
}

/** Targets named in one message; a rule may have thousands. */
const NAMED = 5;
/** Messages of one rule; each of its targets may have one of its own. */
const TOLD = 20;

/**
 * @param refusal why the rule as a whole is not carried out
 * @returns `undefined` while something is still under way, so that half a truth is not told
 */
export function remarksOn(refusal: Refusal | undefined, entries: Iterable<Entry>): ReplicatorEvent[] | undefined {
  if (refusal !== undefined) return [{ type: 'Warning', reason: refusal.reason, message: refusal.message }];
  const groups = new Map<string, { reason: string; message: string; targets: string[] }>();
  for (const { claim, outcome } of entries) {
    if (outcome.state === 'pending') return undefined;
    if (outcome.state !== 'error' && outcome.state !== 'conflict') continue;
    const { namespace, name } = parseResourceKey(claim.target);
    const target = claim.mode === 'fill' ? '' : `${namespace}/${name}`;
    const id = `${outcome.reason} ${outcome.message}`;
    const group = groups.get(id);
    if (group === undefined) groups.set(id, { reason: outcome.reason, message: outcome.message, targets: [target] });
    else group.targets.push(target);
  }
  return [...groups.values()].slice(0, TOLD).map(({ reason, message, targets }) => ({
    type: 'Warning',
    reason,
    message: about(targets, message),
  }));
}

function about(targets: readonly string[], message: string): string {
  const named = targets.filter((target) => target !== '').sort();
  if (named.length === 0) return message;
  const rest = named.length > NAMED ? ` and ${named.length - NAMED} more` : '';
  return `${named.slice(0, NAMED).join(', ')}${rest}: ${message}`;
}
