/**
 * Decides, from what is known of one target, the one thing to do about it. Pure: the same facts give the same plan, and doing
 * what it says leads to facts for which it says `nothing`.
 *
 * Where a fact is missing the plan asks for it (`need`) instead of guessing; the caller gets it and asks again:
 * - `source`: the source's content; - `target`: the target itself, with its content; - `owner`: whether the rule that the target's mark
 *   names is really gone, or really does not want it.
 */
import { byRank, type Entry } from './claim-book.ts';
import {
  type Claim,
  type DesiredState,
  type Outcome,
  PENDING,
  type SourceView,
  type FieldPatch,
} from '../model/claim.ts';
import { parseResourceKey, type RuleKey } from '../model/keys.ts';
import { isForbiddenType } from '../model/kind.ts';
import { isMarkedElsewhere, PLACE_ANNOTATION, placeText } from './marks.ts';
import type { Observed } from '../model/observed.ts';

/** What is remembered of content once its values are dropped: enough to compare. */
export interface Fingerprint {
  readonly digest: string;
  /** As `Observed.ownKeys`. */
  readonly keys: string;
  /** '' for a kind without types. */
  readonly type: string;
}

/** Content that is known to stand in the target at one of its versions. */
export interface Held {
  readonly resourceVersion: string;
  readonly fingerprint: Fingerprint;
}

/** What became of the rule that a target's mark names. */
export type OwnerFate = 'delete' | 'keep';

export interface Facts {
  readonly entries: readonly Entry[];
  /** `unknown`: not in the caches, but it may be there. */
  readonly presence: 'present' | 'absent' | 'unknown';
  readonly observed: Observed | undefined;
  /** The rule whose mark on the target counts. @see ownerByMark */
  readonly markedBy: RuleKey | undefined;
  /** Who makes copies of the target itself, for people: then it is never deleted, but by its own rule to make it anew. */
  readonly usedBy: string | undefined;
  /** A deletion of ours is under way. */
  readonly goingAway: boolean;
  readonly viewOf: (claim: Claim) => SourceView;
  /** The fingerprint of the source's content at the version of its view, if it was read. */
  readonly fingerprintOf: (claim: Claim) => Fingerprint | undefined;
  readonly held: Held | undefined;
  /** The target's type, if it is known; '' for a kind without types. */
  readonly type?: string | undefined;
  /** Asked for by `need owner`. */
  readonly ownerFate: OwnerFate | undefined;
  /** The server refused to change the target as it is (another type, or immutable). */
  readonly frozen: boolean;
  /** What the winner wants could not be done, and not for want of patience. */
  readonly failed?: boolean;
  readonly now: number;
}

export type DesiredObject = Extract<DesiredState, { kind: 'be' }>;

/** What is said of the claims of a mode, where it is something else than what became of the target. */
export interface Remarks {
  readonly own?: Outcome | undefined;
  readonly fill?: Outcome | undefined;
  readonly release?: Outcome | undefined;
}

export type Plan =
  | { readonly do: 'nothing'; readonly remarks?: Remarks }
  | { readonly do: 'wait' | 'fail'; readonly reason: string; readonly message: string; readonly remarks?: Remarks }
  /** Somebody else's object is in the way. */
  | { readonly do: 'conflict'; readonly message: string; readonly remarks?: Remarks }
  | {
      readonly do: 'create' | 'update' | 'replace';
      readonly claim: Claim;
      readonly desired: DesiredObject;
      readonly withData: boolean;
      readonly remarks?: Remarks;
    }
  | { readonly do: 'delete' }
  | { readonly do: 'need'; readonly fact: 'target' | 'owner' }
  /** The content of this claim's source. */
  | { readonly do: 'need'; readonly fact: 'source'; readonly claim: Claim };

/** On a target in which the server stored something else than was written (see `copy/cluster/overwritten.ts`). */
export const OVERWRITTEN_MARK = 'keyferry.dev/overwritten';

const NOTHING: Plan = { do: 'nothing' };
/** We have deleted the target, and the watch is about to say that it is gone, or that it is not. Until then nothing is told. */
const LEAVING: Plan = { do: 'wait', reason: PENDING.reason, message: 'the copy was deleted' };
const DELETING = 'being deleted, and its finalizers are waited for';

/** What is told of a copy that stays although its rule goes. */
export const SPARED: Outcome = {
  state: 'released',
  reason: 'SourceInUse',
  message: 'it stays as long as other copies are made from it',
};

/** The oldest of the rules that claim a target as their own. */
export function oldestOf(entries: readonly Entry[]): Entry | undefined {
  let oldest: Entry | undefined;
  for (const entry of entries) {
    if (entry.claim.mode === 'own' && (oldest === undefined || byRank(entry, oldest) < 0)) oldest = entry;
  }
  return oldest;
}

/**
 * The claim that decides that the target exists, if any. A rule that has the target keeps it as long as it claims it, so that no working
 * copy changes hands because an older rule was edited. Else it goes to the oldest of those that can make it as things stand: a rule
 * without a source does not keep the target from the others.
 */
export function winnerOf({ entries, markedBy, viewOf, now }: Contest): Entry | undefined {
  const owners = entries.filter(({ claim }) => claim.mode === 'own');
  if (owners.length < 2) return owners[0];
  const holder = owners.find(({ claim }) => claim.owner.key === markedBy);
  if (holder !== undefined) return holder;
  const able = owners.filter(({ claim }) => claim.shape.desiredState(viewOf(claim), undefined, now).kind === 'be');
  return oldestOf(able) ?? oldestOf(owners);
}

/** What decides which of several claims on a target wins. */
export type Contest = Pick<Facts, 'entries' | 'markedBy' | 'viewOf' | 'now'>;

/** The claim that decides what the target holds, if it is not the winner's. */
export function fillerOf(entries: readonly Entry[]): Entry | undefined {
  return entries.find(({ claim }) => claim.mode === 'fill');
}

export function plan(facts: Facts): Plan {
  const decision = decide(facts);
  const idle = decision.do === 'nothing' || isIdle(decision);
  return idle && isSpared(facts) ? withRemark(decision, 'release', SPARED) : decision;
}

/** The rule that made the target may go, and the target stays: other copies are made from it. */
function isSpared(facts: Facts): boolean {
  const { observed, usedBy, goingAway } = facts;
  return usedBy !== undefined && isReleased(facts) && observed?.deleting === false && !goingAway;
}

function decide(facts: Facts): Plan {
  const winner = winnerOf(facts)?.claim;
  const releasing = facts.entries.some(({ claim }) => claim.mode === 'release');
  if (winner !== undefined) {
    const owned = planOwned(facts, winner);
    // Who cannot take over what is to go does not keep it from going.
    if (releasing && (isIdle(owned) || facts.failed === true)) return planRelease(facts) ?? owned;
    const filler = fillerOf(facts.entries)?.claim;
    return filler === undefined ? owned : planBeside(facts, winner, owned, filler);
  }
  if (releasing) {
    const released = planRelease(facts);
    if (released !== undefined) return released;
  } else if (facts.observed !== undefined && facts.markedBy !== undefined) {
    const unwanted = planUnwanted(facts);
    if (unwanted.do !== 'nothing') return unwanted;
  }
  const filler = fillerOf(facts.entries)?.claim;
  return filler === undefined ? NOTHING : planFill(facts, filler);
}

function planOwned(facts: Facts, claim: Claim): Plan {
  const { observed } = facts;
  const view = facts.viewOf(claim);
  if (observed === undefined) {
    // In doubt the create finds out: it cannot overwrite anything.
    if (facts.goingAway) return LEAVING;
    return planWrite(facts, claim, view, undefined, 'create');
  }
  if (observed.deleting) {
    return { do: 'wait', reason: 'Terminating', message: `the object of this name is ${DELETING}` };
  }
  if (facts.goingAway) return LEAVING;
  if (facts.markedBy === claim.owner.key) return planWrite(facts, claim, view, observed, 'update');
  const previous = facts.entries.find(
    (entry) => entry.claim.owner.key === facts.markedBy && entry.claim.mode !== 'fill',
  );
  if (previous !== undefined) return planTakeover(facts, claim, view, observed, previous.claim.owner.key);
  if (facts.markedBy === undefined) return { do: 'conflict', message: strangerAt(claim, observed, facts.usedBy) };
  if (facts.ownerFate === undefined) return { do: 'need', fact: 'owner' };
  if (facts.ownerFate === 'keep') {
    return { do: 'conflict', message: `a copy that belongs to ${facts.markedBy} is there` };
  }
  if (facts.usedBy === undefined) return { do: 'delete' };
  return planTakeover(facts, claim, view, observed, facts.markedBy);
}

/**
 * Another rule's copy, and that rule gives way: the mark changes hands. Marks of another system are not rewritten, so such a copy is
 * replaced. A source is never deleted for another rule, so it can only be updated.
 */
function planTakeover(facts: Facts, claim: Claim, view: SourceView, observed: Observed, from: RuleKey): Plan {
  const { usedBy } = facts;
  const sameSystem = reconcilerOf(from) === reconcilerOf(claim.owner.key);
  if (usedBy !== undefined && !sameSystem) {
    return { do: 'conflict', message: `a copy of another system is there, from which ${usedBy} makes copies` };
  }
  const taken = planWrite(facts, claim, view, observed, sameSystem ? 'update' : 'replace');
  if (usedBy === undefined || taken.do !== 'replace') return taken;
  const why = 'which is immutable or of another type and would have to be deleted first';
  return { do: 'conflict', message: `a copy of ${from} is there, ${why}; ${usedBy} makes copies from it` };
}

/** What stands in the way of a claim, for people. */
function strangerAt(claim: Claim, { annotations }: Observed, usedBy: string | undefined): string {
  const place = parseResourceKey(claim.target);
  if (isMarkedElsewhere(annotations, place)) {
    const said = `its annotation ${PLACE_ANNOTATION} names another place`;
    return `an object of this name is there that was cloned from a copy (${said}); delete it to have a copy here`;
  }
  if (usedBy !== undefined) return `an object of this name is there from which ${usedBy} makes copies`;
  return 'an object of this name is there that is not a copy';
}

function isIdle(plan: Plan): plan is Extract<Plan, { do: 'wait' | 'fail' | 'conflict' }> {
  return plan.do === 'wait' || plan.do === 'fail' || plan.do === 'conflict';
}

/**
 * Somebody wants to make the target, and somebody to fill it. What another system made is not filled: the two would undo each other's
 * work for ever. Else who can do nothing here does not keep the other's data from being right.
 */
function planBeside(facts: Facts, winner: Claim, owned: Plan, filler: Claim): Plan {
  const { markedBy } = facts;
  if (markedBy !== undefined && reconcilerOf(markedBy) !== reconcilerOf(filler.owner.key)) {
    const by = markedBy === winner.owner.key ? winner.owner.title : markedBy;
    return withRemark(owned, 'fill', conflict(`it is a copy made by ${by}, which alone says what it holds`));
  }
  if (!isIdle(owned)) return owned;
  if (owned.do === 'conflict') return withRemark(planFill(facts, filler), 'own', conflict(owned.message));
  const { reason, message } = owned;
  const state = owned.do === 'wait' ? 'waiting' : 'error';
  return withRemark(planFill(facts, filler), 'own', { state, reason, message });
}

function conflict(message: string): Outcome {
  return { state: 'conflict', reason: 'Conflict', message };
}

function withRemark(plan: Plan, mode: keyof Remarks, remark: Outcome): Plan {
  if (plan.do === 'need' || plan.do === 'delete') return plan;
  return { ...plan, remarks: { ...plan.remarks, [mode]: remark } };
}

/** The owner is being deleted: what it marked goes. `undefined`: nothing to release here. */
function planRelease(facts: Facts): Plan | undefined {
  const { observed } = facts;
  if (observed === undefined) {
    return facts.presence === 'unknown' && !facts.goingAway ? { do: 'need', fact: 'target' } : undefined;
  }
  if (!isReleased(facts)) return undefined;
  if (observed.deleting) return { do: 'wait', reason: 'Terminating', message: `the copy is ${DELETING}` };
  if (facts.goingAway) return LEAVING;
  return facts.usedBy === undefined ? { do: 'delete' } : undefined;
}

/** The rule that marked the target is being deleted. */
export function isReleased({ entries, markedBy }: Facts): boolean {
  return entries.some(({ claim }) => claim.mode === 'release' && claim.owner.key === markedBy);
}

/** The mark names a rule that has no claim here. */
function planUnwanted(facts: Facts): Plan {
  if (facts.observed?.deleting === true || facts.goingAway || facts.usedBy !== undefined) return NOTHING;
  if (facts.ownerFate === undefined) return { do: 'need', fact: 'owner' };
  return facts.ownerFate === 'delete' ? { do: 'delete' } : NOTHING;
}

function planFill(facts: Facts, claim: Claim): Plan {
  const { observed } = facts;
  if (observed === undefined || observed.deleting || facts.goingAway) return NOTHING;
  return planWrite(facts, claim, facts.viewOf(claim), observed, 'update');
}

function planWrite(
  facts: Facts,
  claim: Claim,
  view: SourceView,
  observed: Observed | undefined,
  verb: 'create' | 'update' | 'replace',
): Plan {
  let desired = placed(claim, claim.shape.desiredState(view, observed, facts.now));
  let from = claim;
  let remarks: Remarks = desired.kind === 'be' ? { [claim.mode === 'own' ? 'own' : 'fill']: desired.remark } : {};
  const filler = claim.mode === 'own' && verb === 'update' ? fillerOf(facts.entries)?.claim : undefined;
  // `own` decides that the target exists and its metadata, `fill` its data: in this order, because the metadata say what to fill it with.
  if (
    filler !== undefined &&
    observed !== undefined &&
    desired.kind === 'be' &&
    desired.data === 'keep' &&
    matches(desired, observed)
  ) {
    const filled = filler.shape.desiredState(facts.viewOf(filler), observed, facts.now);
    if (filled.kind === 'be') {
      from = filler;
      desired = together(desired, filled);
      remarks = { own: remarks.own, fill: filled.remark };
    } else {
      const state = filled.kind === 'wait' ? 'waiting' : 'error';
      remarks = { own: remarks.own, fill: { state, reason: filled.reason, message: filled.message } };
    }
  }
  if (desired.kind === 'wait') return { do: 'wait', reason: desired.reason, message: desired.message };
  if (desired.kind === 'fail') return { do: 'fail', reason: desired.reason, message: desired.message };
  if (desired.data === 'minimal' && desired.type === undefined) {
    const anew = observed === undefined || verb === 'replace';
    const type = anew ? facts.fingerprintOf(claim)?.type : facts.type;
    if (type === undefined) return anew ? { do: 'need', fact: 'source', claim } : { do: 'need', fact: 'target' };
    desired = { ...desired, type };
  }
  if (desired.data === 'source') {
    const fingerprint = facts.fingerprintOf(from);
    if (fingerprint === undefined) return { do: 'need', fact: 'source', claim: from };
    if (isForbiddenType(fingerprint.type)) return refusedType(fingerprint.type);
  }
  const type = desired.type !== undefined && desired.type !== '' ? desired.type : facts.type;
  if (type !== undefined && isForbiddenType(type)) return refusedType(type);
  if (observed === undefined || verb === 'replace') {
    return { do: verb, claim: from, desired, withData: true, remarks };
  }
  const data =
    desired.data === 'source' ? planData(facts, from, observed) : desired.data === 'keep' ? 'current' : 'stale';
  if (data === 'source') return { do: 'need', fact: data, claim: from };
  if (data === 'target') return { do: 'need', fact: data };
  if (claim.mode === 'own') desired = withoutLeftovers(desired, observed);
  if (Object.hasOwn(observed.annotations, OVERWRITTEN_MARK)) {
    desired = { ...desired, annotations: { ...desired.annotations, [OVERWRITTEN_MARK]: null } };
  }
  if (data === 'current' && matches(desired, observed)) return { do: 'nothing', remarks };
  if (data === 'frozen' || facts.frozen) {
    if (claim.mode === 'own') return { do: 'replace', claim: from, desired, withData: true, remarks };
    return {
      do: 'fail',
      reason: 'Immutable',
      message: 'the object cannot be changed: it is immutable, or of another type',
    };
  }
  return { do: 'update', claim: from, desired, withData: data === 'stale', remarks };
}

/** A mark counts only in its place, so a copy says where that is. */
function placed(claim: Claim, desired: DesiredState): DesiredState {
  if (desired.kind !== 'be' || claim.mode !== 'own') return desired;
  const place = placeText(parseResourceKey(claim.target));
  return { ...desired, annotations: { ...desired.annotations, [PLACE_ANNOTATION]: place } };
}

function refusedType(type: string): Plan {
  return { do: 'fail', reason: 'RefusedType', message: `Secrets of type ${type} are never copied` };
}

/** The wishes of the owner and of what fills the target, as one. */
function together(owned: DesiredObject, filled: DesiredObject): DesiredObject {
  const { type: _, remark: __, ...rest } = owned;
  return {
    ...rest,
    ...(filled.type === undefined ? {} : { type: filled.type }),
    data: filled.data,
    labels: { ...owned.labels, ...filled.labels },
    annotations: { ...owned.annotations, ...filled.annotations },
    bookkeeping: { ...owned.bookkeeping, ...filled.bookkeeping },
  };
}

/**
 * Whether the target holds its source's content, found out with as little reading as possible: `current`, `stale`, `frozen` (it
 * cannot hold it, being of another type), or what has to be read to know.
 */
function planData(
  facts: Facts,
  claim: Claim,
  observed: Observed,
): 'current' | 'stale' | 'frozen' | 'source' | 'target' {
  const fingerprint = facts.fingerprintOf(claim);
  if (fingerprint === undefined) return 'source';
  const { held } = facts;
  if (held?.resourceVersion === observed.resourceVersion) {
    if (claim.mode === 'own') {
      // What was written into it says what it holds, not of what type it is: it may have been filled from one of another type.
      if (facts.type === undefined) return 'target';
      if (fingerprint.type !== facts.type) return 'frozen';
    }
    return fingerprint.digest === held.fingerprint.digest ? 'current' : 'stale';
  }
  // Not written by us in this life of the process. Its metadata says which version it holds and that nobody else had a hand in its
  // data: as good as read. The keys must agree too, because a removed key leaves no trace but its absence.
  if (held === undefined && untouched(facts, claim, observed) && observed.ownKeys === fingerprint.keys)
    return 'current';
  return 'target';
}

function untouched(facts: Facts, claim: Claim, observed: Observed): boolean {
  const view = facts.viewOf(claim);
  return (
    observed.ownKeys !== undefined &&
    view.state === 'present' &&
    claim.shape.heldVersion(observed) === view.version &&
    !Object.hasOwn(observed.annotations, OVERWRITTEN_MARK)
  );
}

/** Labels and annotations that we once wrote and that are not wished for any more (the source lost them) go. */
function withoutLeftovers(desired: DesiredObject, observed: Observed): DesiredObject {
  const labels = leftovers(observed.ownLabels, observed.labels, desired.labels);
  const annotations = leftovers(observed.ownAnnotations, observed.annotations, {
    ...desired.annotations,
    ...desired.bookkeeping,
  });
  if (labels === undefined && annotations === undefined) return desired;
  return {
    ...desired,
    labels: { ...desired.labels, ...labels },
    annotations: { ...desired.annotations, ...annotations },
  };
}

function leftovers(
  own: readonly string[],
  actual: Readonly<Record<string, string>>,
  wanted: FieldPatch,
): Record<string, null> | undefined {
  const left = own.filter((key) => Object.hasOwn(actual, key) && !Object.hasOwn(wanted, key));
  return left.length === 0 ? undefined : Object.fromEntries(left.map((key) => [key, null]));
}

/** Whether labels and annotations are as wished; bookkeeping do not count. */
export function matches(desired: DesiredObject, observed: Observed): boolean {
  return agrees(desired.labels, observed.labels) && agrees(desired.annotations, observed.annotations);
}

function agrees(wanted: FieldPatch, actual: Readonly<Record<string, string>>): boolean {
  for (const key in wanted) {
    const value = wanted[key];
    if (value === null ? Object.hasOwn(actual, key) : actual[key] !== value) return false;
  }
  return true;
}

function reconcilerOf(rule: RuleKey): string {
  return rule.slice(0, rule.indexOf(':'));
}
