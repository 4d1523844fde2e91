/**
 * The metrics of rules: which are ready, and whose fault it is where one is not. They are computed at each scrape, so that a rule that is gone
 * leaves no series behind.
 *
 * Users make rules, and servers name reasons. So only the first `MAX_RULES` have series of their own, those that are not ready before the others,
 * and only the first `MAX_REASONS` reasons have their names.
 */
import { BoundedLabel } from './bounded-label.ts';
import type { MetricRegistry, Sample } from './metric-registry.ts';
import type { SourceSet } from './source-set.ts';

/** A rule as it stands. */
export interface RuleSnapshot {
  readonly system: string;
  /** Its name in the system: `default/x`; with several kinds of rules `Secret/default/x`. */
  readonly rule: string;
  readonly namespace: string;
  /** Why it is not ready; `undefined`: it is. */
  readonly problem?: { readonly reason: string; readonly fault: 'user' | 'operator' | 'none' } | undefined;
}

/** Rules with series of their own. */
export const MAX_RULES = 1000;
const MAX_REASONS = 64;
const READY = { reason: 'Ready', fault: 'none' } as const;
/** Of the faults, those that page somebody first. */
const ORDER = { operator: 0, user: 1, none: 2 } as const;

export function addRuleMetrics(registry: MetricRegistry, rules: SourceSet<RuleSnapshot>): void {
  // Read once for the three metrics, as there may be thousands. A registry collects in the order of registration, without a pause.
  let scraped: readonly RuleSnapshot[] = [];
  registry.derived(
    'keyferry_rules',
    'Rules, by what keeps them from being ready.',
    ['system', 'fault', 'reason'],
    () => {
      const reasons = new BoundedLabel(MAX_REASONS);
      scraped = rules.read();
      return scraped.map(({ system, problem = READY }) => {
        return { labels: { system, fault: problem.fault, reason: reasons.of(problem.reason) }, value: 1 };
      });
    },
  );
  const names = ['system', 'rule', 'rule_namespace', 'fault', 'reason'] as const;
  registry.derived('keyferry_rule_ready', '1 if all is done that a rule asks for.', names, () => {
    const reasons = new BoundedLabel(MAX_REASONS);
    return firstRules(scraped).map(({ system, rule, namespace, problem }): Sample<(typeof names)[number]> => {
      const { fault, reason } = problem ?? READY;
      const labels = { system, rule, rule_namespace: namespace, fault, reason: reasons.of(reason) };
      return { labels, value: problem === undefined ? 1 : 0 };
    });
  });
  const omitted = 'Rules without a series of their own in keyferry_rule_ready.';
  registry.derived('keyferry_rules_omitted', omitted, [], () => {
    const value = Math.max(0, scraped.length - MAX_RULES);
    scraped = [];
    return [{ labels: {}, value }];
  });
}

/** Those with series of their own. Which ones does not change from scrape to scrape while the rules are the same. */
function firstRules(rules: readonly RuleSnapshot[]): readonly RuleSnapshot[] {
  return rules.length <= MAX_RULES ? rules : rules.toSorted((a, b) => rankOf(a) - rankOf(b)).slice(0, MAX_RULES);
}

function rankOf({ problem }: RuleSnapshot): number {
  return problem === undefined ? ORDER.none + 1 : ORDER[problem.fault];
}
