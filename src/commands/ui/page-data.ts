/** Makes what the page shows: the report of `keyferry status`, and the facts that only the page needs. */
import type { Advice, PageData, PageRule } from '../../../ui/data.ts';
import { type Reason, REASONS } from '../../copy/model/reasons.ts';
import { rfc3339 } from '../../runtime/text/texts.ts';
import type { StatusFindings } from '../status/report.ts';
import { MENDERS } from '../status/summary.ts';

/** @param now wall clock, ms */
export function pageData(
  { report, ruleNames }: StatusFindings,
  { requiresConsent, now }: { requiresConsent: boolean; now: number },
): PageData {
  const { cluster, notes, namespaces, orphans } = report;
  const rules = report.rules.map((rule): PageRule => {
    const id = `${rule.system} ${rule.kind} ${rule.namespace}/${rule.name}`;
    return { ...rule, id };
  });
  const advice = adviceOn(rules);
  return { at: rfc3339(now), cluster, notes, ruleNames, requiresConsent, namespaces, advice, rules, orphans };
}

/** The advice on the reasons that occur. */
function adviceOn(rules: readonly PageRule[]): Record<string, Advice> {
  const reasons = rules.flatMap((rule) => [rule, ...rule.failing, ...rule.refused].map(({ reason }) => reason));
  if (rules.some(({ warnings }) => warnings.length > 0)) reasons.push('MisreadPattern');
  const known = [...new Set(reasons)].filter((reason) => Object.hasOwn(REASONS, reason));
  return Object.fromEntries(
    known.map((reason) => [reason, { ...REASONS[reason as Reason], who: MENDERS[REASONS[reason as Reason].who] }]),
  );
}
