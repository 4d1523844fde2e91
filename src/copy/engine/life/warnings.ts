/** The events about what failed: a rule, its targets, or copies that could not be deleted. Pure. */
import type { Entry } from '../../book/claim-book.ts';
import type { Cause } from '../../model/cause.ts';
import type { Undeleted } from '../../model/claim.ts';
import { controllerOf, namespaceOf, parseResourceKey, type RuleKey, ruleName } from '../../model/keys.ts';
import type { EventInput } from '../../../kube/event-recorder.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import { someOf } from '../../../runtime/text/texts.ts';
import type { RuleEvent } from '../controller.ts';

/** Maximum number of targets in one message. */
const MAX_NAMED = 5;
/** Maximum number of events of one rule. */
const MAX_EVENTS = 20;

type Text = Pick<Cause, 'reason' | 'message'>;

export function warning({ reason, message }: Text): RuleEvent {
  return { type: 'Warning', reason, message };
}

/**
 * The warnings about a rule whose object has no status. One names all targets with the same message.
 * @param refusal why the whole rule is not applied; `undefined`: it is applied
 * @returns `undefined` while an outcome is pending: the warnings would be incomplete
 */
export function failureWarnings(refusal: Cause | undefined, claims: Iterable<Entry>): RuleEvent[] | undefined {
  if (refusal !== undefined) return [warning(refusal)];
  const problems: (readonly [string, Cause])[] = [];
  for (const { target, claim, outcome } of claims) {
    if (outcome.state === 'pending') return undefined;
    if (outcome.state !== 'error' && outcome.state !== 'conflict') continue;
    const { namespace, name } = parseResourceKey(target);
    problems.push([claim.mode === 'fill' ? '' : `${namespace}/${name}`, outcome]);
  }
  return warningsAbout(problems);
}

/** One warning for each cause. It names the targets, except those with the path ''. */
function warningsAbout(problems: Iterable<readonly [path: string, Text]>): RuleEvent[] {
  const groups = new Map<string, Text & { readonly paths: string[] }>();
  for (const [path, { reason, message }] of problems)
    getOrCreate(groups, `${reason} ${message}`, () => ({ reason, message, paths: [] })).paths.push(path);
  const reported = [...groups.values()].slice(0, MAX_EVENTS);
  return reported.map(({ reason, message, paths }) => warning({ reason, message: about(paths, message) }));
}

export function about(paths: readonly string[], message: string): string {
  const named = paths.filter((path) => path !== '').sort();
  return named.length === 0 ? message : `${someOf(named, MAX_NAMED)}: ${message}`;
}

/** @param isForTenants whether a tenant reads the warnings. A tenant must not know where the copies are */
export function undeletedWarnings(
  undeleted: readonly Undeleted[],
  what = 'the copy',
  isForTenants = false,
): RuleEvent[] {
  return warningsAbout(
    undeleted.map(({ target, outcome: { reason, ...outcome } }) => {
      const { namespace, name } = parseResourceKey(target);
      const message = `cannot delete ${what}: ${isForTenants ? outcome.publicMessage : outcome.message}`;
      return [isForTenants ? '' : `${namespace}/${name}`, { reason, message }];
    }),
  );
}

/** The events about a rule that is gone. It has no object any more, so they are about its namespace. */
export function goneRuleEvents(rule: RuleKey, undeleted: readonly Undeleted[], isForTenants: boolean): EventInput[] {
  const namespace = namespaceOf(rule);
  const subject = { apiVersion: 'v1', kind: 'Namespace', namespace, name: namespace, uid: '' };
  const what = `the copy, whose rule ${ruleName(rule)} of ${controllerOf(rule)} is gone`;
  return undeletedWarnings(undeleted, what, isForTenants).map((event) => Object.assign(event, { subject }));
}
