/**
 * Decides on one action for a target, from the facts about it. Pure: the same facts always give the same plan. After
 * the plan was carried out, the facts give `nothing`.
 *
 * If a fact is missing, the plan is `need`. The caller gets the fact and plans again (see `decide`):
 * - `source`: the source's content; - `target`: the target itself, with its content; - `owner`: whether the rules that
 *   the target's marks name, and that do not claim it, let it go.
 */
import { because, nobodyCause, OTHER_OWNER } from '../model/cause.ts';
import { type Claim, type Outcome, PENDING, type SourceView, SYNCED } from '../model/claim.ts';
import { controllerOf, parseResourceKey, type RuleKey } from '../model/keys.ts';
import { contentVersion, isMarkedElsewhere, MERGED_FROM, type Observed, PLACE_ANNOTATION } from '../model/observed.ts';
import { fillerOf, isReleased, winnerOf, conflictWithRule, outcomeOf } from './contest.ts';
import type { Facts, Plan, Remarks } from './facts.ts';
import { hasOthers, planUnmarked, planWrite } from './plan-write.ts';

const NOTHING: Plan = { do: 'nothing' };
/** The plan while no watch has confirmed that Keyferry deleted the target. */
const DELETION_PENDING: Plan = {
  do: 'wait',
  for: 'watch',
  ...nobodyCause(PENDING.reason, 'the copy is being deleted'),
};

function terminating(title: string): Plan {
  const message = `${title} is being deleted and waits for its finalizers`;
  return { do: 'wait', for: 'target', ...because('Terminating', message) };
}

/** The outcome for a copy that stays although its rule is being deleted. */
export const KEPT_AS_SOURCE: Outcome = {
  state: 'released',
  kept: true,
  ...because('SourceInUse'),
};

export function plan(facts: Facts): Plan {
  const decision = planTarget(facts);
  const idle = decision.do === 'nothing' || isIdle(decision);
  return idle && isKeptAsSource(facts) ? withRemark(decision, 'release', KEPT_AS_SOURCE) : decision;
}

/** Whether the target's rule is being deleted, but the target stays because it is the source of other copies. */
function isKeptAsSource(facts: Facts): boolean {
  const { observed, usedBy, goingAway } = facts;
  return usedBy !== undefined && isReleased(facts) && observed?.deleting === false && !goingAway;
}

function planTarget(facts: Facts): Plan {
  const winner = winnerOf(facts)?.claim;
  const releasing = facts.entries.some(({ claim }) => claim.mode === 'release');
  if (winner !== undefined) {
    const owned = planOwned(facts, winner);
    // If another rule cannot take over a copy, the deletion of the copy's own rule must go on.
    if (releasing && cannotTakeOver(facts, owned)) return planRelease(facts) ?? owned;
    const filler = fillerOf(facts)?.claim;
    return filler === undefined ? owned : planWithFiller(facts, winner, owned, filler);
  }
  if (releasing) {
    const released = planRelease(facts);
    if (released !== undefined) return released;
  } else if (facts.leftBy.length > 0) {
    const orphan = planOrphan(facts);
    if (orphan.do !== 'nothing') return orphan;
  }
  const filler = fillerOf(facts)?.claim;
  return filler === undefined ? NOTHING : planFill(facts, filler);
}

function planOwned(facts: Facts, claim: Claim): Plan {
  const { observed } = facts;
  const view = facts.viewOf(claim);
  if (facts.unmarked !== undefined) return planUnmarked(facts, claim, view);
  if (observed === undefined) {
    // A create never overwrites an object, so it is safe even if the caches lack an object that exists.
    return facts.goingAway ? DELETION_PENDING : planWrite(facts, claim, view, undefined, 'create');
  }
  if (observed.deleting) {
    return terminating(titleOf(facts));
  }
  if (facts.goingAway) return DELETION_PENDING;
  if (facts.markedBy === claim.owner.key) return planWrite(facts, claim, view, observed, 'update');
  const previous = facts.entries.find((entry) => entry.claim.owner.key === facts.markedBy);
  if (previous !== undefined && facts.leftBy.length === 0)
    return planTakeover(facts, claim, view, observed, previous.claim.owner.key);
  if (facts.markedBy === undefined) return planTaken(facts, claim, view, observed) ?? blockedBy(facts, observed);
  if (facts.orphanAction === undefined) return { do: 'need', fact: 'owner' };
  if (facts.orphanAction === 'keep') {
    return conflictWith(`${titleOf(facts)} already exists and belongs to ${facts.markedBy}`);
  }
  // The keys of others on the copy would be lost with a replacement. So the copy becomes theirs before. An object of a
  // user becomes the user's again in any case: its consent was for the rule that let it go.
  const end = planEnd(facts, observed);
  const isOther = controllerOf(facts.markedBy) !== controllerOf(claim.owner.key);
  if (end.do !== 'delete' && (isOther || MERGED_FROM in observed.annotations)) return end;
  const taken = planTakeover(facts, claim, view, observed, facts.markedBy);
  return facts.usedBy === undefined && cannotTakeOver(facts, taken) ? end : taken;
}

/**
 * Whether the winner cannot take over the copy of another rule, so that the copy is deleted. While a watch is about to
 * report the winner's source, it still may: the copy stays, because otherwise it would be missing for a moment.
 */
function cannotTakeOver({ takeoverFailed }: Facts, taken: Plan): boolean {
  return takeoverFailed === true || (isIdle(taken) && !(taken.do === 'wait' && taken.for === 'watch'));
}

/**
 * Takes over the copy of a rule that no longer claims it: the copy gets the new rule's mark. If the new rule has
 * another controller, the copy is replaced, because an update leaves the other controller's marks. A source of copies
 * is never deleted for another rule, only updated.
 */
function planTakeover(facts: Facts, claim: Claim, view: SourceView, observed: Observed, from: RuleKey): Plan {
  const { usedBy } = facts;
  const sameController = controllerOf(from) === controllerOf(claim.owner.key);
  if (usedBy !== undefined && !sameController) {
    return conflictWith(`${titleOf(facts)} already exists, belongs to ${from}, and is the source of ${usedBy}`);
  }
  const taken = planWrite(facts, claim, view, observed, sameController ? 'update' : 'replace');
  if (usedBy === undefined || taken.do !== 'replace') return taken;
  const why = 'it is immutable or has another type, and cannot be replaced';
  return conflictWith(
    `${titleOf(facts)} already exists and belongs to ${from}: ${why} while it is the source of ${usedBy}`,
  );
}

/** Writes an object of somebody else that consents. If several rules could have made it, none does. `undefined`: no. */
function planTaken(facts: Facts, claim: Claim, view: SourceView, observed: Observed): Plan | undefined {
  const { now } = facts;
  if (isMarkedElsewhere(observed.annotations, parseResourceKey(facts.target))) return undefined;
  const { takes: taken } = claim.shape.desiredState(view, observed, now);
  if (taken === undefined) return undefined;
  const others = facts.entries.filter(
    ({ claim: one }) => one !== claim && one.shape.desiredState(facts.viewOf(one), observed, now).takes !== undefined,
  );
  if (taken === 'sure' || others.length === 0) return planWrite(facts, claim, view, observed, 'update');
  const titles = [claim, ...others.map((entry) => entry.claim)].map(({ owner }) => owner.title);
  return conflictWith(`${titleOf(facts)} already exists, and may be a copy of any of ${titles.join(', ')}`);
}

/** The conflict if an object exists where the copy should be, and no mark on this object counts. */
function blockedBy(facts: Facts, { annotations }: Observed): Plan {
  const { target, usedBy } = facts;
  const place = parseResourceKey(target);
  const exists = `${titleOf(facts)} already exists and`;
  if (isMarkedElsewhere(annotations, place)) {
    const mark = `annotation ${PLACE_ANNOTATION} names another object`;
    return conflict(`${exists} was cloned from a copy (${mark}); delete it to allow the copy`);
  }
  if (usedBy !== undefined) return conflictWith(`${exists} is the source of ${usedBy}`);
  return conflict(`${exists} is not managed by Keyferry; delete it to allow the copy`);
}

function conflict(message: string, publicMessage = message): Plan {
  return { do: 'conflict', ...because('Conflict', message, publicMessage) };
}

/** A conflict whose message names another rule, which a tenant must not see. */
function conflictWith(message: string): Plan {
  return conflict(message, OTHER_OWNER);
}

/** The target for messages: `Secret "x"`. Without the namespace, so that equal messages are reported only once. */
function titleOf({ target }: Facts): string {
  const { kind, name } = parseResourceKey(target);
  return `${kind} "${name}"`;
}

function isIdle(plan: Plan): plan is Extract<Plan, { do: 'wait' | 'fail' | 'conflict' }> {
  return plan.do === 'wait' || plan.do === 'fail' || plan.do === 'conflict';
}

/**
 * Plans a target that one rule owns and another rule fills. If their controllers differ, the target is not filled,
 * because each would undo the other's writes without end. Otherwise, if one rule cannot act, the other still can.
 */
function planWithFiller(facts: Facts, winner: Claim, owned: Plan, filler: Claim): Plan {
  const { markedBy } = facts;
  if (markedBy !== undefined && controllerOf(markedBy) !== controllerOf(filler.owner.key)) {
    const by = markedBy === winner.owner.key ? winner.owner.title : markedBy;
    return withRemark(
      owned,
      'fill',
      conflictWithRule(`the object is a copy of ${by}, so annotations cannot change its data`),
    );
  }
  if (!isIdle(owned)) return owned;
  const filled = planFill(facts, filler);
  // The object of a user that fills itself from the same source is what the other rule wants.
  const isSame = owned.do === 'conflict' && filler.source === winner.source && !isIdle(filled);
  return withRemark(filled, 'own', isSame ? SYNCED : outcomeOf(owned));
}

function withRemark(plan: Plan, mode: keyof Remarks, remark: Outcome | undefined): Plan {
  if (plan.do === 'need' || plan.do === 'delete') return plan;
  return { ...plan, remarks: { ...plan.remarks, [mode]: remark } };
}

/** Plans a target whose owner is being deleted: deletes it. `undefined`: there is nothing to do for this owner. */
function planRelease(facts: Facts): Plan | undefined {
  const { observed } = facts;
  if (observed === undefined) {
    return facts.presence === 'unknown' && !facts.goingAway ? { do: 'need', fact: 'target' } : undefined;
  }
  if (!isReleased(facts)) return undefined;
  if (observed.deleting) return terminating('the copy');
  if (facts.goingAway) return DELETION_PENDING;
  if (facts.usedBy !== undefined) return undefined;
  if (facts.leftBy.length === 0) return { do: 'delete' };
  return facts.orphanAction === undefined ? { do: 'need', fact: 'owner' } : planEnd(facts, observed);
}

/** Plans a target with the marks of rules that do not claim it. */
function planOrphan(facts: Facts): Plan {
  const { observed, usedBy } = facts;
  if (observed === undefined || observed.deleting || facts.goingAway) return NOTHING;
  // A source of copies is not deleted. An object of a user loses our keys all the same, and so do its copies.
  if (usedBy !== undefined && !(MERGED_FROM in observed.annotations)) return NOTHING;
  if (facts.orphanAction === undefined) return { do: 'need', fact: 'owner' };
  const end = planEnd(facts, observed);
  return end.do === 'delete' && usedBy !== undefined ? NOTHING : end;
}

/** Deletes a target that no rule wants. If it has keys of other clients, only ours and the marks go. */
function planEnd(facts: Facts, observed: Observed): Plan {
  const { orphanAction: action, held, now } = facts;
  if (action === 'delete') return { do: 'delete' };
  if (action === 'keep' || action === undefined) return NOTHING;
  const view = facts.viewOf(action);
  const rest = action.shape.desiredState(view, observed, now);
  const merged = rest.kind === 'be' ? rest.merged : undefined;
  if (merged?.isUsers !== true) {
    const isKnown = observed.ownKeys !== undefined || held?.version === contentVersion(observed);
    if (!isKnown) return { do: 'need', fact: 'target' };
    if (!hasOthers(facts, observed, merged)) return { do: 'delete' };
  }
  return planWrite(facts, action, view, observed, 'update');
}

function planFill(facts: Facts, claim: Claim): Plan {
  const { observed } = facts;
  if (observed === undefined || observed.deleting || facts.goingAway) return NOTHING;
  return planWrite(facts, claim, facts.viewOf(claim), observed, 'update');
}
