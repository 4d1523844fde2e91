/** Makes what the page shows: the report of `keyferry status`, and the facts that only the page needs. */
import type { Advice, PageData, PageNamespace, PageRule, Place } from '../../../ui/data.ts';
import { isEntryKey, parseResourceKey, resourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { type Reason, REASONS } from '../../copy/model/reasons.ts';
import { rfc3339 } from '../../runtime/text/texts.ts';
import type { Snapshot } from '../snapshot/snapshot.ts';
import type { RuleStatus } from '../snapshot/status-report.ts';
import type { StatusFindings } from '../status/report.ts';

/** @param cluster name of the cluster in resource keys. @param now wall clock, ms */
export function pageData(
  snapshot: Snapshot,
  { report, hasCounts, ruleNames }: StatusFindings,
  { cluster, requiresConsent, now }: { cluster: string; requiresConsent: boolean; now: number },
): PageData {
  const { inventory } = snapshot;
  const rules = report.rules.map((rule): PageRule => {
    const object = resourceKey(cluster, rule.kind, rule.namespace, rule.name);
    const reader = [...snapshot.readers.values()].find(({ system }) => system === rule.system);
    const key = reader && snapshot.ruleIn(reader, object);
    return {
      ...rule,
      id: `${rule.system} ${rule.kind} ${rule.namespace}/${rule.name}`,
      from: key === undefined ? null : sourceOf(snapshot, key, cluster),
      since: snapshot.describe(object)?.condition?.lastTransitionTime ?? null,
      isCounted: hasCounts(rule),
      refused: key === undefined ? [] : refusedOf(snapshot, key, cluster),
    };
  });
  return {
    at: rfc3339(now),
    cluster: report.cluster,
    leaders: report.leaders,
    notes: report.notes,
    ruleNames,
    requiresConsent,
    namespaces: inventory.knowsNamespaces ? namespacesOf(snapshot) : null,
    advice: adviceOn(rules),
    rules,
    orphans: report.orphans,
  };
}

/** The source of a rule; `null`: it is not an object, or not known. */
function sourceOf({ rules }: Snapshot, rule: RuleKey, cluster: string): Place | null {
  const { claims = [], sources = [] } = rules.get(rule) ?? {};
  const source = claims[0]?.claim.source ?? sources[0];
  if (source === undefined || isEntryKey(source)) return null;
  const place = parseResourceKey(source);
  return { ...place, cluster: place.cluster === cluster ? '' : place.cluster };
}

/** The namespaces that a rule selects but may not copy into. */
function refusedOf(snapshot: Snapshot, rule: RuleKey, cluster: string): PageRule['refused'] {
  const { claims = [], outOfReach, sources } = snapshot.rules.get(rule) ?? {};
  if (outOfReach === undefined || outOfReach.part === 'none') return [];
  // Without a target, the copies probably have the name of their source.
  const like = claims[0]?.target ?? sources?.[0];
  if (like === undefined || isEntryKey(like)) return [];
  const { kind, name } = parseResourceKey(like);
  const { namespaces } = snapshot.inventory;
  const found: { namespace: string; reason: string; message: string }[] = [];
  for (const namespace of namespaces.names()) {
    const target = resourceKey(cluster, kind, namespace, name);
    if (snapshot.claims.book.claims(rule, target)) continue;
    const refusal = snapshot.refusalOf(rule, target);
    if (refusal !== undefined) found.push({ namespace, reason: refusal.reason, message: refusal.message });
  }
  return found;
}

function namespacesOf(snapshot: Snapshot): PageNamespace[] {
  const { namespaces } = snapshot.inventory;
  return Array.from(namespaces.names(), (name) => {
    const acceptFrom = namespaces.factsOf(name)?.acceptFrom;
    const closed = snapshot.limitOn(name)?.message;
    return { name, ...(acceptFrom !== undefined && { acceptFrom }), ...(closed !== undefined && { closed }) };
  }).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** The advice on the reasons that occur. */
function adviceOn(rules: readonly (RuleStatus & Pick<PageRule, 'refused'>)[]): Record<string, Advice> {
  const reasons = rules.flatMap(({ reason, failing, refused }) => [
    reason,
    ...failing.map((one) => one.reason),
    ...refused.map((one) => one.reason),
  ]);
  const known = [...new Set(reasons)].filter((reason) => Object.hasOwn(REASONS, reason));
  return Object.fromEntries(known.map((reason) => [reason, REASONS[reason as Reason]]));
}
