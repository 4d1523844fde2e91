/**
 * Makes the parts of the report of `keyferry status` about rules and their copies, and about copies that no rule claims
 * (orphans). The whole report: `commands/status/report.ts`.
 */
import type { Entry } from '../../copy/book/claim-book.ts';
import type { Claimed } from '../../copy/model/claim.ts';
import { withReason } from '../../copy/model/cause.ts';
import { controllerOf, parseResourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { type Observed, PLACE_ANNOTATION } from '../../copy/model/observed.ts';
import type { KubeObject } from '../../kube/api.ts';
import { command } from '../../runtime/text/command.ts';
import type { Condition } from '../../controllers/common/rules/rule-statuses.ts';
import { VAULT_NOT_READ } from './inventory.ts';
import type { ListedRule, RuleReader, Unwanted } from './reader.ts';
import type { Snapshot } from './snapshot.ts';
import type { StatusReport } from '../../../scripts/reports/schemas.ts';
import type { MigratedProgram } from '../../config/migrated-programs.ts';

/** A rule with its state and its copies. */
export type RuleStatus = StatusReport['rules'][number];
export type CopyStatus = RuleStatus['copies'][number];
/** A target that is not up to date. State `pending`: Keyferry would write the target now. */
export type FailingTarget = RuleStatus['failing'][number];
/** A copy that no rule claims. */
export type OrphanStatus = StatusReport['orphans'][number];

/** The place of an object in reports. `namespace` is '' for an object without a namespace. */
export type TargetPlace = Pick<CopyStatus, 'kind' | 'namespace' | 'name'>;

export function placeOf(object: ResourceKey): TargetPlace {
  const { kind, namespace, name } = parseResourceKey(object);
  return { kind, namespace, name };
}

/** `Secret default/mysecret` */
export function titleOf({ kind, namespace, name }: TargetPlace): string {
  return `${kind} ${namespace}/${name}`;
}

export type RuleState = Pick<RuleStatus, 'state' | 'ready' | 'reason' | 'message'>;

interface WithConditions extends KubeObject {
  readonly status?: { readonly observedGeneration?: number; readonly conditions?: readonly Condition[] };
}

export function notReady(state: string, reason: string, message: string): RuleState {
  return { state, ready: false, reason, message };
}

/** The condition of a type; `undefined`: the object has no such condition for its present spec. */
export function currentCondition({ metadata, status }: WithConditions, type: string): Condition | undefined {
  const isCurrent = metadata.generation === undefined || status?.observedGeneration === metadata.generation;
  return isCurrent ? status?.conditions?.find((one) => one.type === type) : undefined;
}

/** The state of a custom resource from one condition. @param state its `RuleStatus.state` if it is not being deleted */
export function stateByCondition(object: WithConditions, type: string, state: string): RuleState {
  const { metadata, status } = object;
  const condition = currentCondition(object, type);
  if (metadata.deletionTimestamp !== undefined) {
    // A condition from before the deletion does not explain why the deletion waits.
    const isExplained = condition?.status === 'False' || condition?.reason === 'Terminating';
    const details = isExplained ? `; ${condition.reason}: ${condition.message}` : '';
    return notReady('Deleting', 'Deleting', `since ${metadata.deletionTimestamp}${details}`);
  }
  if (condition === undefined) {
    const isSeen = status?.conditions?.some((one) => one.type === type) === true;
    if (!isSeen) return notReady(state, 'NotSeen', 'not reconciled yet; check that Keyferry is running');
    return notReady(state, 'Outdated', 'the latest change is not reconciled yet; check that Keyferry is running');
  }
  return { state, ready: condition.status === 'True', reason: condition.reason, message: condition.message };
}

/** The reason of a rule whose state the caller has no permission to read. Such a rule does not count as a problem. */
export const LIMITED = 'Limited';

/** Sorts by system, namespace and name. */
export function byName(a: TargetPlace & { system?: string }, b: TargetPlace & { system?: string }): number {
  for (const field of ['system', 'namespace', 'name'] as const) {
    const [left, right] = [a[field] ?? '', b[field] ?? ''];
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}

/** @param versionMark the annotation that contains the version of the source */
export function copyStatus(copy: ResourceKey, { annotations }: Observed, versionMark: string): CopyStatus {
  return { ...placeOf(copy), sourceVersion: annotations[versionMark] ?? '' };
}

/**
 * The rules of all controllers, with their keys if they have claims. If the state of a rule does not explain its
 * problem (`isDecided`), the targets of the rule are decided.
 * @param isIncluded whether to include the rules in a namespace
 * @throws the errors of `api.request`
 */
export async function ruleStatuses(
  snapshot: Snapshot,
  isIncluded: (namespace: string) => boolean,
): Promise<readonly (readonly [RuleKey | undefined, RuleStatus])[]> {
  const listed = [...snapshot.readers.values()].flatMap((reader) =>
    Array.from(reader.list(snapshot), (rule) => ({ reader, rule })).filter(({ rule }) => isIncluded(rule.namespace)),
  );
  await snapshot.settle(listed.flatMap(({ rule: { key, isDecided } }) => (isDecided ? (key ?? []) : [])));
  await snapshot.decide(listed.flatMap(({ rule: { key } }) => (key === undefined ? [] : unwantedOf(snapshot, key))));
  return listed.map(({ reader, rule }) => [rule.key, statusOf(snapshot, reader, rule)]);
}

/** The copies with the mark of a rule that does not claim them. */
function unwantedOf({ claims }: Snapshot, rule: RuleKey): ResourceKey[] {
  return [...claims.ownedBy(rule)].filter((copy) => !claims.book.claims(rule, copy));
}

/** The existing copy of a claim: an object with the mark of the claim's rule, or a filled object; `undefined`: none. */
export function copyOf({ claims, inventory, readers }: Snapshot, { target, claim }: Claimed): Observed | undefined {
  const { owner, mode } = claim;
  const observed = inventory.objects.get(target);
  if (observed === undefined) return undefined;
  const isHeld =
    mode === 'fill'
      ? readers.get(controllerOf(owner.key))?.isFilled?.(observed) === true
      : claims.ownerOf(observed, target) === owner.key;
  return isHeld ? observed : undefined;
}

function statusOf(snapshot: Snapshot, reader: RuleReader, rule: ListedRule): RuleStatus {
  const { key, isDecided, stateOf, ...described } = rule;
  const { claims, inventory } = snapshot;
  const outOfReach = key && snapshot.rules.get(key)?.outOfReach;
  const copies: (readonly [ResourceKey, Observed])[] = [];
  for (const entry of key === undefined ? [] : claims.book.of(key)) {
    const observed = copyOf(snapshot, entry);
    if (observed !== undefined) copies.push([entry.target, observed]);
  }
  const state = stateOf(copies.map(([, observed]) => observed));
  // A status is that of the operator, which may have other limits than this command.
  const isRefused =
    state.ready && outOfReach !== undefined && outOfReach.part !== 'others' && inventory.only === undefined;
  const unwanted = key === undefined ? [] : unwantedOf(snapshot, key);
  const left = unwanted.filter((copy) => snapshot.decisionOn(copy).plan.do === 'delete').length;
  const earlier = left === 1 ? '1 earlier copy is' : `${left} earlier copies are`;
  return {
    system: reader.system,
    ...described,
    ...state,
    ...(state.ready &&
      left > 0 &&
      notReady(
        'Outdated',
        'Outdated',
        `${earlier} not deleted, and an event says why if that lasts; ${state.message}`,
      )),
    ...(isRefused &&
      notReady(state.state, outOfReach.reason, `${outOfReach.message}; its status says ${withReason(state)}`)),
    copies: copies.map(([copy, observed]) => copyStatus(copy, observed, reader.versionMark)).toSorted(byName),
    failing: isDecided && key !== undefined ? failingOf(snapshot, key) : [],
    warnings: key !== undefined && inventory.knowsNamespaces ? (reader.misreadOf?.(key) ?? []) : [],
  };
}

/** The condition of a rule that is not ready; `undefined`: it is ready, or has no condition for its present spec. */
function falseCondition({ readers }: Snapshot, rule: RuleKey): Condition | undefined {
  const condition = readers.get(controllerOf(rule))?.conditionOf?.(rule);
  return condition?.status === 'False' ? condition : undefined;
}

/** Reports a condition that contradicts this snapshot; `undefined`: none. Cause: other flags, or a refused write. */
export function contraryCondition(snapshot: Snapshot, rule: RuleKey): string | undefined {
  const { claims, rules } = snapshot;
  const condition = falseCondition(snapshot, rule);
  if (condition === undefined) return undefined;
  const { refusal, outOfReach } = rules.get(rule) ?? {};
  const entries = [...claims.book.of(rule)];
  const outcomes = entries.map(({ outcome }) => outcome);
  const causes = [refusal, outOfReach, claims.ruleSetOf(rule).problemOf?.(rule), ...outcomes];
  if (causes.some((cause) => cause?.reason === condition.reason)) return undefined;
  const says = `the condition of ${snapshot.titleOf(rule)} says ${withReason(condition)}`;
  // Of a source in Vault, the operator knows more than this command, whatever flags both have.
  return entries.some(isUnread)
    ? says
    : `${says}: either the server refuses the write, or the operator has other flags than this command`;
}

/** Whether nothing is known of the source of a claim, because commands do not read Vault. */
function isUnread({ claim, outcome: { state, reason } }: Entry): boolean {
  return state === 'waiting' && claim.source === undefined && reason === VAULT_NOT_READ.reason;
}

/** The targets of a rule that are not up to date. @param snapshot must have settled the rule (`Snapshot.settle`) */
function failingOf(snapshot: Snapshot, rule: RuleKey): FailingTarget[] {
  const failing: FailingTarget[] = [];
  const contrary = contraryCondition(snapshot, rule);
  const but = contrary === undefined ? '' : `, but ${contrary}`;
  for (const entry of snapshot.claims.book.of(rule)) {
    const { target } = entry;
    const { state, reason, message } = entry.outcome;
    if (state === 'synced' || state === 'released') continue;
    const place = placeOf(target);
    if (isUnread(entry)) {
      // It is unknown whether the content of an existing copy is up to date, and why a copy is missing.
      if (snapshot.inventory.objects.has(target)) continue;
      const why = falseCondition(snapshot, rule) ?? { reason: 'Missing', message: 'the copy does not exist yet' };
      failing.push({ ...place, state, reason: why.reason, message: why.message });
    } else if (state === 'pending') {
      const { plan } = snapshot.decisionOn(target);
      failing.push({
        ...place,
        state,
        reason: 'Outdated',
        message: plan.do === 'later' ? 'the target changed while it was read' : `Keyferry will ${plan.do} it${but}`,
      });
    } else {
      failing.push({ ...place, state, reason, message });
    }
  }
  return failing.toSorted(byName);
}

interface UnwantedObject {
  readonly reader: RuleReader;
  readonly key: ResourceKey;
  readonly observed: Observed;
  readonly unwanted: Unwanted;
}

/** The copies that no rule of any controller claims, with the decisions on them. @throws the errors of `api.request` */
export async function orphansIn(snapshot: Snapshot): Promise<OrphanStatus[]> {
  const found: UnwantedObject[] = [];
  for (const reader of snapshot.readers.values()) {
    for (const [key, observed] of snapshot.inventory.objects) {
      const unwanted = reader.unwanted?.(snapshot, key, observed);
      if (unwanted !== undefined) found.push({ reader, key, observed, unwanted });
    }
  }
  await snapshot.decide(found.flatMap(({ key, unwanted }) => (unwanted.isIgnored === true ? [] : key)));
  return found.map((one) => orphanOf(snapshot, one));
}

function orphanOf(snapshot: Snapshot, { reader, key, observed, unwanted }: UnwantedObject): OrphanStatus {
  const { owner, why, isIgnored, leftover, keptBecause } = unwanted;
  const orphan = { system: reader.system, ...copyStatus(key, observed, reader.versionMark), owner };
  if (isIgnored === true) return { ...orphan, reason: why };
  // A mark without a place (`keyferry.dev/target`) does not count, so Keyferry itself never deletes the object.
  if (leftover !== undefined && !observed.deleting && !(PLACE_ANNOTATION in observed.annotations)) {
    const because = leftover.because ?? heldBy(snapshot, key);
    return { ...orphan, ...leftoverOf(leftover.program, leftover.why, because) };
  }
  const fate = fateOf(snapshot, key);
  const because = fate === STAYS && keptBecause !== undefined ? `, because ${keptBecause}` : '';
  const action = snapshot.decisionOn(key).plan.do === 'delete' ? ({ action: 'delete' } as const) : {};
  return { ...orphan, ...action, reason: `${why}; ${fate}${because}` };
}

const STAYS = 'Keyferry keeps it';

/** Says in words what Keyferry does with a copy that its rule does not claim. */
function fateOf(snapshot: Snapshot, copy: ResourceKey): string {
  const { facts, plan } = snapshot.decisionOn(copy);
  if (facts.observed?.deleting === true) return 'it is being deleted';
  if (plan.do === 'delete') return 'Keyferry will delete it, or an event says why it cannot';
  if (plan.do === 'later' && plan.because === 'namespace') return 'its namespace is being deleted';
  return facts.usedBy === undefined ? STAYS : `${STAYS} while it is the source of ${facts.usedBy}`;
}

/**
 * The verdict of `keyferry migrate` on a copy without a place. `manual`: a person must decide whether to keep the copy.
 * @param why why no rule claims the copy, judged by the source that its marks name
 * @param because why a user may still want the copy; `undefined`: no reason is known
 */
export function leftoverOf(
  program: MigratedProgram,
  why: string,
  because: string | undefined,
): { readonly verdict: 'leftover' | 'manual'; readonly reason: string } {
  const stays = `${why}; ${STAYS}`;
  if (because !== undefined) return { verdict: 'manual', reason: `${stays}, because ${because}` };
  const how = command(`migrate --from ${program} --apply --delete-leftovers`);
  return { verdict: 'leftover', reason: `${stays} until it is deleted by ${how}` };
}

/** Why an object may be in use: the rule that makes, fills or uses it, or what cannot be read; `undefined`: unknown. */
export function heldBy(snapshot: Snapshot, object: ResourceKey): string | undefined {
  const { claims, inventory, readers } = snapshot;
  if (!inventory.isWhole) return 'not all objects can be read, and one of them may use it';
  if (inventory.objects.get(object)?.trimmed === true) return 'its labels and annotations are too long to be read';
  const [claimed] = claims.book.on(object);
  if (claimed !== undefined) return `${claimed.claim.owner.title} claims it`;
  const [used] = claims.book.from(object);
  if (used !== undefined) return `${used.claim.owner.title} copies it`;
  const rule = snapshot.ruleOf(object);
  if (rule !== undefined && snapshot.rules.has(rule)) return 'it requests copies itself';
  for (const reader of readers.values()) {
    const foreign = reader.heldBy?.(object);
    if (foreign !== undefined) return foreign;
  }
  return claims.book.userOf(object);
}
