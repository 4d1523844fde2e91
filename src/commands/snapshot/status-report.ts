/**
 * Makes the parts of the report of `keyferry status` about rules and their copies, and about copies that no rule claims
 * (orphans). The whole report: `commands/status/report.ts`.
 */
import type { StatusReport } from '../../../scripts/reports/schemas.ts';
import type { Condition } from '../../copy/engine/life/condition.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import { because, withReason } from '../../copy/model/cause.ts';
import { REASONS } from '../../copy/model/reasons.ts';
import {
  isEntryKey,
  namespaceOf,
  parseResourceKey,
  type ResourceKey,
  resourceKey,
  type RuleKey,
} from '../../copy/model/keys.ts';
import { type Observed, PLACE_ANNOTATION } from '../../copy/model/observed.ts';
import { VAULT_NOT_READ } from './inventory.ts';
import { byName, type Place, placeOf } from './places.ts';
import type { Description, Unwanted } from './reader.ts';
import { notReady } from './rule-state.ts';
import type { Reader, Snapshot } from './snapshot.ts';

/** A rule with its state and its copies. */
export type RuleStatus = StatusReport['rules'][number];
export type CopyStatus = RuleStatus['copies'][number];
/** A target that is not up to date. State `pending`: Keyferry would write the target now. */
export type FailingTarget = RuleStatus['failing'][number];
/** A copy that no rule claims. */
export type OrphanStatus = StatusReport['orphans'][number];

export function copyStatus(
  copy: ResourceKey,
  { annotations }: Observed,
  { versionMark, versionIn }: Pick<Reader, 'versionMark' | 'versionIn'>,
): CopyStatus {
  const text = annotations[versionMark] ?? '';
  return { ...placeOf(copy), sourceVersion: versionIn?.(text) ?? text };
}

/**
 * The rules of all controllers, with their keys if they have claims. If the state of a rule does not explain its
 * problem, the targets of the rule are decided.
 * @param isIncluded whether to include the rules in a namespace
 * @throws the errors of `api.request`
 */
export async function ruleStatuses(
  snapshot: Snapshot,
  isIncluded: (namespace: string) => boolean,
): Promise<readonly (readonly [RuleKey | undefined, RuleStatus])[]> {
  const listed = [...snapshot.readers.values()].flatMap((reader) =>
    Array.from(snapshot.candidates(reader)).flatMap((object) => {
      const described = isIncluded(namespaceOf(object)) ? reader.describe(object, snapshot) : undefined;
      if (described === undefined) return [];
      const key = snapshot.ruleIn(reader, object);
      return [{ reader, object, described, key, unwanted: unwantedOf(snapshot, key) }];
    }),
  );
  // A rule that is ready has no failing targets, so its targets need not be decided.
  const unready = listed.filter(({ described }) => !described.state().ready);
  await snapshot.settle(unready.flatMap(({ key }) => key ?? []));
  await snapshot.decide(listed.flatMap(({ unwanted }) => unwanted));
  return listed.map((rule) => [rule.key, statusOf(snapshot, rule)]);
}

/** The copies with the mark of a rule that does not claim them. */
function unwantedOf({ claims }: Snapshot, rule: RuleKey | undefined): ResourceKey[] {
  return rule === undefined ? [] : [...claims.ownedBy(rule)].filter((copy) => !claims.book.claims(rule, copy));
}

interface ListedRule {
  readonly reader: Pick<Reader, 'system' | 'versionMark' | 'versionIn'>;
  readonly object: ResourceKey;
  /** `undefined`: the rules of this controller have no claims. */
  readonly key: RuleKey | undefined;
  readonly described: Description;
  readonly unwanted: readonly ResourceKey[];
}

function statusOf(snapshot: Snapshot, { reader, object, key, described, unwanted }: ListedRule): RuleStatus {
  const { claims, inventory } = snapshot;
  const { source, destinations, elsewhere = [], warnings = [] } = described;
  const outOfReach = key && snapshot.rules.get(key)?.outOfReach;
  const copies: CopyStatus[] = [];
  for (const entry of key === undefined ? [] : claims.book.of(key)) {
    const observed = snapshot.copyOf(entry);
    if (observed !== undefined) copies.push(copyStatus(entry.target, observed, reader));
  }
  const state = described.state();
  // A status is that of the operator, which may have other limits than this command.
  const isRefused = state.ready && outOfReach !== undefined && outOfReach.part !== 'others' && inventory.isWhole;
  const left = unwanted.filter((copy) => snapshot.decisionOn(copy).plan.do === 'delete').length;
  const earlier = left === 1 ? '1 earlier copy is' : `${left} earlier copies are`;
  return {
    system: reader.system,
    ...placeOf(object),
    source,
    from: described.from === undefined ? sourceOf(snapshot, key) : described.from,
    destinations,
    elsewhere,
    ...state,
    ...(state.ready &&
      left > 0 &&
      notReady(
        'Outdated',
        because('Outdated', `${earlier} not deleted, and an event says why if that lasts; ${state.message}`),
      )),
    ...(isRefused &&
      notReady(state.state, {
        reason: outOfReach.reason,
        message: `${outOfReach.message}; its status says ${withReason(state)}`,
      })),
    since: described.condition?.lastTransitionTime ?? null,
    copies: copies.toSorted(byName),
    refused: key === undefined ? [] : refusedOf(snapshot, key),
    failing: key === undefined || state.ready ? [] : failingOf(snapshot, key),
    warnings: key !== undefined && inventory.isWhole ? warnings : [],
  };
}

/** The source of a rule; `null`: it is not known. */
function sourceOf({ rules, cluster: home }: Snapshot, rule: RuleKey | undefined): Place | null {
  const { claims = [], sources = [] } = (rule && rules.get(rule)) ?? {};
  const source = claims[0]?.claim.source ?? sources[0];
  if (source === undefined || isEntryKey(source)) return null;
  const { cluster } = parseResourceKey(source);
  return { ...placeOf(source), cluster: cluster === home ? '' : cluster };
}

/** The targets that a rule selects, but that a limit or a consent forbids. */
function refusedOf(snapshot: Snapshot, rule: RuleKey): RuleStatus['refused'] {
  const { claims = [], outOfReach, sources = [] } = snapshot.rules.get(rule) ?? {};
  // Without a target, the copies probably have the name of their source.
  const like = claims[0]?.target ?? sources[0];
  if (outOfReach === undefined || like === undefined || isEntryKey(like)) return [];
  const { kind, name } = parseResourceKey(like);
  return Array.from(snapshot.inventory.namespaces.names()).flatMap((namespace) => {
    const target = resourceKey(snapshot.cluster, kind, namespace, name);
    const refusal = snapshot.claims.book.claims(rule, target) ? undefined : snapshot.refusalOf(rule, target);
    return refusal === undefined ? [] : [{ kind, namespace, name, reason: refusal.reason, message: refusal.message }];
  });
}

/** The condition of a rule that is not ready; `undefined`: it is ready, or has no condition for its present spec. */
function falseCondition(snapshot: Snapshot, rule: RuleKey): Condition | undefined {
  const condition = snapshot.describe(snapshot.objectOf(rule))?.condition;
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
    // Nothing is known of a target whose kind was not listed.
    if (!snapshot.inventory.isListed(parseResourceKey(target).kind, '')) continue;
    const place = placeOf(target);
    if (isUnread(entry)) {
      // It is unknown whether the content of an existing copy is up to date, and why a copy is missing.
      if (snapshot.inventory.objects.has(target)) continue;
      const why = falseCondition(snapshot, rule) ?? because('Missing');
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
  readonly reader: Reader;
  readonly key: ResourceKey;
  readonly observed: Observed;
  readonly unwanted: Unwanted;
}

/** The copies that no rule of any controller claims, with the decisions on them. @throws the errors of `api.request` */
export async function orphansIn(snapshot: Snapshot): Promise<OrphanStatus[]> {
  const found: UnwantedObject[] = [];
  for (const reader of snapshot.readers.values()) {
    for (const [key, observed] of snapshot.inventory.objects) {
      const unwanted = reader.unwanted?.(key, observed, snapshot);
      if (unwanted !== undefined) found.push({ reader, key, observed, unwanted });
    }
  }
  await snapshot.decide(found.flatMap(({ key, unwanted }) => (unwanted.isIgnored === true ? [] : key)));
  return found.map((one) => orphanOf(snapshot, one));
}

function orphanOf(snapshot: Snapshot, { reader, key, observed, unwanted }: UnwantedObject): OrphanStatus {
  const { owner, why, isIgnored } = unwanted;
  const orphan = { system: reader.system, ...copyStatus(key, observed, reader), owner };
  if (isIgnored === true) return { ...orphan, reason: why };
  if (observed.deleting) return { ...orphan, reason: `${why}; it is being deleted` };
  const { plan } = snapshot.decisionOn(key);
  // A mark without a place (`keyferry.dev/target`) does not count, except with `--adopt-orphans`.
  const isPlaced = PLACE_ANNOTATION in observed.annotations;
  const doubt = isPlaced ? undefined : (reader.ruleSet?.markOn(observed, key)?.doubt ?? undefined);
  const held = unwanted.because ?? doubt ?? heldBy(snapshot, key);
  const because = held === undefined ? '' : `, because ${held}`;
  const verdict = held === undefined ? ('leftover' as const) : ('manual' as const);
  if (plan.do === 'delete') {
    const fate = 'Keyferry will delete it, or an event says why it cannot';
    return { ...orphan, action: 'delete', verdict, reason: `${why}; ${fate}` };
  }
  if (plan.do === 'update') return { ...orphan, action: 'update', reason: `${why}; Keyferry will update it${because}` };
  if (plan.do === 'later' && plan.because === 'namespace')
    return { ...orphan, reason: `${why}; ${REASONS.NamespaceTerminating.says}` };
  const left = snapshot.claims.leftoverOf(observed, key);
  const isAdoptable = left !== undefined && left.keptBecause === undefined;
  const unless = held === undefined && isAdoptable ? ' without --adopt-orphans' : because;
  return { ...orphan, reason: `${why}; Keyferry keeps it${unless}`, ...(!isPlaced && { verdict }) };
}

/**
 * Why an object may be in use: the rule that makes, fills or uses it, or may want it, or what cannot be read;
 * `undefined`: nothing is known. Only the rules of the controllers that the snapshot has read are known.
 */
function heldBy(snapshot: Snapshot, object: ResourceKey): string | undefined {
  const { claims, inventory, rules, readers } = snapshot;
  if (!inventory.isWhole) return 'not all objects can be read, and one of them may use it';
  const observed = inventory.objects.get(object);
  if (observed?.trimmed === true) return 'its labels and annotations are too long to be read';
  const [claimed] = claims.book.on(object);
  if (claimed !== undefined) return `${claimed.claim.owner.title} claims it`;
  const [used] = claims.book.from(object);
  if (used !== undefined) return `${used.claim.owner.title} copies it`;
  const [names] = claims.book.rulesOn(object);
  if (names !== undefined) return `${snapshot.titleOf(names)} names it as its source`;
  if (snapshot.rulesOf(object).some((rule) => rules.has(rule))) return 'it requests copies itself';
  for (const [rule, { refusal, owner }] of rules) {
    const isSelected = claims.ruleSetOf(rule).selects?.(rule, object)?.();
    if (isSelected === true) return `${owner.title} selects it`;
    if (isSelected === false && refusal !== undefined) return `${owner.title} may select it: ${refusal.message}`;
  }
  const [use] = [...readers.values()].flatMap((reader) => (observed && reader.uses?.(observed)) ?? []);
  return use ?? claims.book.userOf(object);
}
