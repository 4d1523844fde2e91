/** The events of a rule: refusals and failures, grouped by message, with their targets. Pure. */
import { someOf } from '../../../runtime/text/some-of.ts';
import type { Entry } from '../../../copy/book/claim-book.ts';
import { parseResourceKey } from '../../../copy/model/keys.ts';
import type { Refusal } from './annotations.ts';

export interface ReplicatorEvent {
  readonly type: 'Warning';
  readonly reason: string;
  readonly message: string;
}

/** Maximum number of targets in one message. */
const MAX_NAMED = 5;
/** Maximum number of events of one rule. */
const MAX_EVENTS = 20;

/**
 * @param refusal why the whole rule is not applied
 * @returns `undefined` while an outcome is pending, to avoid incomplete events
 */
export function eventsOf(refusal: Refusal | undefined, entries: Iterable<Entry>): ReplicatorEvent[] | undefined {
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
  return [...groups.values()].slice(0, MAX_EVENTS).map(({ reason, message, targets }) => ({
    type: 'Warning',
    reason,
    message: about(targets, message),
  }));
}

/** @param named namespaces of targets @param served the only namespaces that copies can be in */
export function unservedEvents(named: Iterable<string>, served: readonly string[]): readonly ReplicatorEvent[] {
  const others = [...named].filter((namespace) => !served.includes(namespace));
  if (others.length === 0) return [];
  const message = about(others, 'not among the namespaces that Keyferry serves (--namespaces)');
  return [{ type: 'Warning', reason: 'NotServed', message }];
}

/** @param messages see `misreadPatterns` */
export function misreadEvents(messages: readonly string[]): readonly ReplicatorEvent[] {
  return messages.map((message) => ({ type: 'Warning', reason: 'MisreadPattern', message }));
}

function about(targets: readonly string[], message: string): string {
  const named = targets.filter((target) => target !== '').sort();
  return named.length === 0 ? message : `${someOf(named, MAX_NAMED)}: ${message}`;
}
