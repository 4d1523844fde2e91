/**
 * The report of `keyferry plan`. It has a row for each target that the manifests concern, and a row for each rule that
 * claims such a target but does not get it. JSON and YAML have exactly the report's fields. Later versions may add
 * fields, but change and remove none. The schema is docs/schemas/plan.json.
 */
import { withReason } from '../../copy/model/cause.ts';
import type { PlanReport } from '../../../scripts/reports/schemas.ts';
import { placeOf } from '../snapshot/places.ts';
import type { Snapshot } from '../snapshot/snapshot.ts';
import { controllerOf, namespaceOf, parseResourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Outcome } from '../../copy/model/claim.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import { isReleased, winnerOf } from '../../copy/plan/contest.ts';
import type { Cell } from '../output/terminal.ts';
import type { TextParts } from '../output/text.ts';
import { orphansIn } from '../snapshot/status-report.ts';
import { adopted, plannedAction } from './action.ts';
import type { Given } from './given.ts';

export type PlannedTarget = PlanReport['targets'][number];
type PlannedAction = PlannedTarget['action'];
/** A mistake in a rule or a manifest. */
export type PlannedProblem = PlanReport['problems'][number];
/** A note on a rule: why it has no targets, or what the plan does not show of it. */
export type PlannedNote = PlanReport['notes'][number];

const REFUSED: ReadonlySet<PlannedAction> = new Set(['conflict', 'fail']);

/** Whether a copy would be lost, or a rule or manifest refused. If so, the exit code is 3. */
export function hasLossOrRefusal({ targets, problems }: Pick<PlanReport, 'targets' | 'problems'>): boolean {
  return problems.length > 0 || targets.some(({ action, lost }) => lost || REFUSED.has(action));
}

/** Adds the table of targets to the output. */
export function addTargets(parts: TextParts, targets: readonly PlannedTarget[]): void {
  parts.table(
    ['  ACTION', 'KIND', 'NAMESPACE', 'NAME', 'FOR', 'WHY'],
    targets.map((target) => {
      const { kind, namespace, name, rule, reason } = target;
      return [actionCell(target), kind, namespace, name, rule, reason];
    }),
  );
}

/** The sign is for whoever sees no colors: `✗` data would be lost, `!` refused. */
function actionCell({ action, lost }: PlannedTarget): Cell {
  const isRefused = REFUSED.has(action);
  const text = `${lost ? '✗' : isRefused ? '!' : ' '} ${action}`;
  if (lost || isRefused) return { text, style: 'bad' };
  return action === 'nothing' ? text : { text, style: action === 'wait' ? 'waiting' : 'good' };
}

export interface Affected {
  /** The objects in the manifests, except Namespaces. */
  readonly objects: ReadonlySet<ResourceKey>;
  /** The objects in the manifests that are rules, sources or targets. */
  readonly used: ReadonlySet<ResourceKey>;
  /** The rules in the manifests. */
  readonly rules: ReadonlySet<RuleKey>;
  readonly targets: ReadonlySet<ResourceKey>;
}

export function affectedBy(snapshot: Snapshot, given: readonly Given[]): Affected {
  const isNamespace = ({ kind }: Given): boolean => kind === 'Namespace';
  const namespaces = new Set(given.filter(isNamespace).map(({ manifest }) => manifest.metadata.name));
  const objects = new Set(given.filter((one) => !isNamespace(one)).map(({ key }) => key));
  const targets = new Set<ResourceKey>();
  const used = new Set<ResourceKey>();
  const rules = new Set<RuleKey>();
  for (const object of objects) {
    for (const rule of snapshot.rulesOf(object)) {
      rules.add(rule);
      if (snapshot.rules.has(rule)) used.add(object);
    }
  }
  const isGiven = (object: ResourceKey): boolean =>
    objects.has(object) || namespaces.has(parseResourceKey(object).namespace);
  const concerned = new Set(rules);
  for (const [rule, { sources }] of snapshot.rules) {
    // The labels of a Namespace may decide whether the rules in it may copy at all.
    if (namespaces.has(namespaceOf(rule))) concerned.add(rule);
    const isConcerned = concerned.has(rule) || sources.some(isGiven);
    for (const { target, claim } of snapshot.claims.book.of(rule)) {
      const { source } = claim;
      if (source !== undefined && objects.has(source)) used.add(source);
      if (isConcerned || isGiven(target)) targets.add(target);
    }
  }
  // Also the copies that no rule claims any more.
  for (const owner of snapshot.claims.owners) {
    for (const copy of snapshot.claims.ownedBy(owner)) {
      if (concerned.has(owner) || isGiven(copy)) targets.add(copy);
    }
  }
  return { objects, used, rules, targets };
}

/** All that a start of the operator concerns. */
export function affectedByStart({ rules, claims }: Snapshot): Affected {
  const targets = new Set<ResourceKey>();
  for (const rule of rules.keys()) for (const { target } of claims.book.of(rule)) targets.add(target);
  for (const owner of claims.owners) for (const copy of claims.ownedBy(owner)) targets.add(copy);
  return { objects: new Set(), used: new Set(), rules: new Set(rules.keys()), targets };
}

/** Rows for the copies with marks of an original that no rule claims. Keyferry leaves them as they are. */
export async function leftRows(snapshot: Snapshot): Promise<PlannedTarget[]> {
  const orphans = await orphansIn(snapshot);
  return orphans.flatMap(({ system, kind, namespace, name, owner, reason, action }) =>
    action !== undefined ? [] : { system, action: 'leave', kind, namespace, name, rule: owner, reason, lost: false },
  );
}

/**
 * The rows for the targets, sorted by controller, then by place.
 * @returns `isChange`: something would change, or a rule in the manifests loses a target
 */
export async function rowsOf(
  snapshot: Snapshot,
  { targets, rules }: Affected,
): Promise<readonly { readonly row: PlannedTarget; readonly isChange: boolean }[]> {
  await snapshot.decide(targets);
  const rows: { row: PlannedTarget; isChange: boolean }[] = [];
  for (const target of [...targets].toSorted()) {
    const { main, losers } = rowsOn(snapshot, target);
    rows.push({ row: main, isChange: main.action !== 'nothing' });
    for (const { owner, row } of losers) rows.push({ row, isChange: rules.has(owner) });
  }
  return rows.toSorted((a, b) => (a.row.system < b.row.system ? -1 : Number(a.row.system > b.row.system)));
}

/** The row of a target, and a row for each rule that does not get it. @param snapshot must have decided the target */
export function rowsOn(
  snapshot: Snapshot,
  target: ResourceKey,
): {
  readonly main: PlannedTarget;
  readonly losers: readonly { readonly owner: RuleKey; readonly row: PlannedTarget }[];
} {
  const { facts, plan } = snapshot.decisionOn(target);
  const { entries, markedBy } = facts;
  const marker = markedBy === undefined ? '' : snapshot.titleOf(markedBy);
  const whyUnwanted = isReleased(facts)
    ? `${marker} is being deleted`
    : markedBy === undefined || !snapshot.rules.has(markedBy)
      ? `${marker} does not exist or has no copies`
      : (snapshot.whyNot(markedBy, target) ?? `no longer selected by ${marker}`);
  const outcomes = [...snapshot.outcomesOn(target)];
  const decides = 'claim' in plan ? plan.claim.owner : undefined;
  const winner = entries.find(({ claim }) => claim.owner === decides) ?? winnerOf(facts) ?? entries[0];
  const rule = winner?.claim.owner.title ?? marker;
  const remark = plan.do === 'nothing' ? remarkOf(outcomes, winner) : undefined;
  const place = placeOf(target);
  const decider = winner?.claim.owner.key ?? markedBy;
  const system = decider === undefined ? '' : controllerOf(decider);
  const losers = outcomes.filter(([entry, { state }]) => entry !== winner && state === 'conflict');
  return {
    main: {
      system,
      ...place,
      rule,
      ...plannedAction(snapshot.decisionOn(target), whyUnwanted),
      ...adopted(snapshot.decisionOn(target)),
      ...remark,
    },
    losers: losers.map(([{ claim }, { message }]) => ({
      owner: claim.owner.key,
      row: {
        ...place,
        system: controllerOf(claim.owner.key),
        action: 'conflict',
        rule: claim.owner.title,
        reason: message,
        lost: false,
      },
    })),
  };
}

/** Why Keyferry does nothing although the target is not up to date; `undefined`: the target is up to date. */
function remarkOf(
  outcomes: readonly (readonly [Entry, Outcome])[],
  winner: Entry | undefined,
): Pick<PlannedTarget, 'action' | 'reason'> | undefined {
  for (const [entry, outcome] of outcomes) {
    const { state, message } = outcome;
    if (state === 'error') return { action: 'fail', reason: withReason(outcome) };
    if (state === 'conflict' && entry === winner) return { action: 'conflict', reason: message };
    if (state === 'waiting') return { action: 'wait', reason: withReason(outcome) };
  }
  return undefined;
}
