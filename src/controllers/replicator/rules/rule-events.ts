/** Makes the events of a rule: its refusal or its failures. One event names all targets with the same message. Pure. */
import { getOrCreate } from '../../../runtime/maps.ts';
import { someOf } from '../../../runtime/text/texts.ts';
import type { Entry } from '../../../copy/book/claim-book.ts';
import type { Cause } from '../../../copy/model/cause.ts';
import { parseResourceKey } from '../../../copy/model/keys.ts';
import { misreadPatterns, type Served, type There, unionOf } from '../../common/namespaces/selection.ts';
import { SUSPENDED } from './annotations.ts';
import type { Targets } from './rule.ts';

export interface ReplicatorEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}

/** Maximum number of targets in one message. */
const MAX_NAMED = 5;
/** Maximum number of events of one rule. */
const MAX_EVENTS = 20;

/**
 * @param refusal why the whole rule is not applied; `undefined`: it is applied
 * @returns `undefined` while an outcome is pending: the events would be incomplete
 */
export function eventsOf(refusal: Cause | undefined, entries: Iterable<Entry>): ReplicatorEvent[] | undefined {
  if (refusal === SUSPENDED) return [{ ...warning(refusal), type: 'Normal' }];
  if (refusal !== undefined) return [warning(refusal)];
  const groups = new Map<string, { reason: string; message: string; targets: string[] }>();
  for (const { target, claim, outcome } of entries) {
    if (outcome.state === 'pending') return undefined;
    if (outcome.state !== 'error' && outcome.state !== 'conflict') continue;
    const place = parseResourceKey(target);
    const path = claim.mode === 'fill' ? '' : `${place.namespace}/${place.name}`;
    const { reason, message } = outcome;
    getOrCreate(groups, `${reason} ${message}`, () => ({ reason, message, targets: [] })).targets.push(path);
  }
  const reported = [...groups.values()].slice(0, MAX_EVENTS);
  return reported.map(({ reason, message, targets }) => warning({ reason, message: about(targets, message) }));
}

/**
 * The events about named namespaces that do not exist or are not served, and about patterns that look like `team-*`.
 * @param served the only namespaces that may contain copies; `undefined`: all
 */
export function warningsOf({ groups, suspects }: Targets, there: There, served: Served | undefined): ReplicatorEvent[] {
  const { names } = unionOf(groups.map((group) => group.namespaces));
  const others = served === undefined ? [] : [...names].filter((namespace) => !served.has(namespace));
  const patterns = misreadPatterns(suspects, there.names());
  const events = patterns.map((message) => warning({ reason: 'MisreadPattern', message }));
  const missing = [...names].filter((namespace) => !there.has(namespace) && !others.includes(namespace));
  if (missing.length > 0) {
    const message = about(missing, 'no such namespace, or it is being deleted; it gets its copy when it is created');
    events.unshift({ type: 'Normal', reason: 'NoNamespace', message });
  }
  if (served === undefined || others.length === 0) return events;
  const message = about(others, `not among the namespaces ${served.which}`);
  return [warning({ reason: 'NotServed', message }), ...events];
}

export function warning({ reason, message }: Pick<ReplicatorEvent, 'reason' | 'message'>): ReplicatorEvent {
  return { type: 'Warning', reason, message };
}

function about(targets: readonly string[], message: string): string {
  const named = targets.filter((target) => target !== '').sort();
  return named.length === 0 ? message : `${someOf(named, MAX_NAMED)}: ${message}`;
}
