/** What is told of a rule that is an annotated object: it has no status, so its users read events. Pure. */
import type { ClaimBook, Entry } from '../../../copy/book/claim-book.ts';
import type { Report, RuleEvent, RuleFacts } from '../../../copy/engine/controller.ts';
import { failureWarnings, undeletedWarnings, warning } from '../../../copy/engine/life/warnings.ts';
import { because, type Cause } from '../../../copy/model/cause.ts';
import type { ResourceKey, RuleKey } from '../../../copy/model/keys.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { OutOfReach } from '../../../copy/model/rule-set.ts';
import type { AnnotatedRules } from './rules.ts';
import { SUSPENDED } from './values.ts';

/** What a controller says of its rules. */
type TellingRules = Pick<AnnotatedRules, 'warningsOf' | 'named'>;

/** What is wrong with the annotations of a rule, and which of its targets are out of reach. */
export function warningsOf(rules: TellingRules, rule: RuleKey, outOfReach: OutOfReach | undefined): RuleEvent[] {
  const limited = outOfReach === undefined ? [] : [warning(outOfReach)];
  return [...limited, ...rules.warningsOf(rule)];
}

/** Only warnings are told: Normal events about one user's rules would displace warnings about those of others. */
export function reportOf(rules: TellingRules, facts: RuleFacts): Report | undefined {
  const { key, claims, refusal, outOfReach, undeleted } = facts;
  const found = eventsOf(refusal, rules.named(claims));
  const warnings = warningsOf(rules, key, outOfReach).filter(({ type }) => type === 'Warning');
  return found && { remarks: [...found, ...undeletedWarnings(undeleted), ...warnings] };
}

/**
 * The events of a rule: its refusal or its failures. One event names all targets with the same message.
 * @returns `undefined` while an outcome is pending: the events would be incomplete
 */
export function eventsOf(refusal: Cause | undefined, claims: Iterable<Entry>): RuleEvent[] | undefined {
  return refusal === SUSPENDED ? [{ ...warning(refusal), type: 'Normal' }] : failureWarnings(refusal, claims);
}

/** What a rule that went had. */
export interface Left {
  /** Its object with the annotations. */
  readonly before: Observed;
  readonly copies: readonly ResourceKey[];
}

/**
 * The warning about the copies that go because the annotations of a rule are gone: another program, such as the one that
 * makes the object from a template, may have removed them. None for a copy that another rule wants.
 */
export function removalWarnings(
  rules: Pick<AnnotatedRules, 'versionOf'>,
  { before, copies }: Left,
  book: Pick<ClaimBook, 'isClaimed'>,
): readonly RuleEvent[] {
  const count = copies.filter((copy) => !book.isClaimed(copy)).length;
  if (count === 0) return [];
  const names = Object.entries(before.annotations).flatMap(([name, value]) =>
    rules.versionOf({ ...before, annotations: { [name]: value } }) === undefined ? [] : name,
  );
  const which = `annotation ${names.toSorted().join(', ')} is gone from the object`;
  return [warning(because('RuleRemoved', `${which}, so ${count === 1 ? 'its copy goes' : `its ${count} copies go`}`))];
}
