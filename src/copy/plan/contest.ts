/** Decides which of several claims on a target gets it, and the outcome of each claim. Pure. */
import { byRank, type Entry } from '../book/claim-book.ts';
import { because, type Cause, causeOf, isPassing, OTHER_OWNER } from '../model/cause.ts';
import {
  type Claim,
  type DesiredObject,
  type Outcome,
  type Owner,
  PENDING,
  RELEASED,
  SYNCED,
  isUnderWay,
} from '../model/claim.ts';
import { controllerOf } from '../model/keys.ts';
import type { Contest, Facts, Plan, Remarks } from './facts.ts';

/** The `own` claim whose owner comes first by rank; `undefined`: there is no `own` claim. */
export function oldestOf(entries: readonly Entry[]): Entry | undefined {
  let oldest: Entry | undefined;
  for (const entry of entries) {
    if (entry.claim.mode === 'own' && (oldest === undefined || byRank(entry, oldest) < 0)) oldest = entry;
  }
  return oldest;
}

/**
 * The `own` claim that gets the target, if there is one. The rule that has the target keeps it while it claims the
 * target, so that an edit of an older rule never takes a working copy away. Otherwise the oldest rule that can make the
 * target now gets it, so that a rule whose source is missing does not block the others.
 */
export function winnerOf({ entries, markedBy, observed, viewOf, now }: Contest): Entry | undefined {
  const owners = entries.filter(({ claim }) => claim.mode === 'own');
  if (owners.length < 2) return owners[0];
  const holder = owners.find(({ claim }) => claim.owner.key === markedBy);
  if (holder !== undefined) return holder;
  const maker =
    markedBy === undefined && observed !== undefined
      ? owners.find(({ claim }) => claim.shape.desiredState(viewOf(claim), observed, now).takes === 'sure')
      : undefined;
  if (maker !== undefined) return maker;
  const able = owners.filter(({ claim }) => claim.shape.desiredState(viewOf(claim), undefined, now).kind === 'be');
  return oldestOf(able) ?? oldestOf(owners);
}

/**
 * The claim that fills the data of the target; `undefined`: there is none. If several could, the one whose data the
 * target has according to its annotations keeps it.
 */
export function fillerOf(contest: Contest): Entry | undefined {
  const fillers = contest.entries.filter(({ claim }) => claim.mode === 'fill').sort(byRank);
  if (fillers.length < 2) return fillers[0];
  const { observed } = contest;
  const able = fillers.filter((entry) => copyOf(contest, entry.claim) !== undefined);
  const holder = able.find(({ claim: { shape } }) => observed && shape.heldVersion(observed) !== undefined);
  return holder ?? able[0] ?? fillers[0];
}

/** The desired object of a claim that copies the whole source now; `undefined`: it does not. */
function copyOf({ observed, viewOf, now }: Contest, claim: Claim): DesiredObject | undefined {
  if (claim.source === undefined || claim.selection !== undefined) return undefined;
  const desired = claim.shape.desiredState(viewOf(claim), observed, now);
  return desired.kind === 'be' && desired.data === 'source' ? desired : undefined;
}

/**
 * The claims of other controllers that ask for the same copy as a claim: of the same source and type. Then the target is
 * one copy with the marks of all. When one of them ends, its marks go; when the last one ends, the copy goes.
 */
export function partnersOf(contest: Contest, claim: Claim): readonly Partner[] {
  const { entries } = contest;
  if (entries.length < 2) return [];
  const wanted = copyOf(contest, claim);
  const found = new Map([[controllerOf(claim.owner.key), undefined as Partner | undefined]]);
  for (const entry of wanted === undefined ? [] : [...entries].sort(byRank)) {
    const { mode, source, owner } = entry.claim;
    const controller = controllerOf(owner.key);
    if (mode !== claim.mode || source !== claim.source || found.has(controller)) continue;
    const desired = copyOf(contest, entry.claim);
    if (desired !== undefined && desired.type === wanted?.type) found.set(controller, { entry, desired });
  }
  return [...found.values()].filter((partner) => partner !== undefined);
}

export interface Partner {
  readonly entry: Entry;
  readonly desired: DesiredObject;
}

/** Whether the rule whose mark the target has is being deleted. */
export function isReleased({ entries, markedBy }: Contest): boolean {
  return entries.some(({ claim }) => claim.mode === 'release' && claim.owner.key === markedBy);
}

/**
 * Whether the winner has to take over the target, because the target has the mark of another rule, which is being
 * deleted or no longer claims it. The target then gets the mark of the winner, so that it never disappears. If the
 * takeover fails and is given up, the target is deleted as if no other rule claimed it.
 */
export function isHandOver(contest: Contest): boolean {
  const { markedBy } = contest;
  return markedBy !== undefined && (winnerOf(contest)?.claim.owner.key ?? markedBy) !== markedBy;
}

/** Whether to give up a failed takeover: at once if the error is permanent, else when the error was reported. */
export function shouldGiveUpTakeover(error: unknown, contest: Contest): boolean {
  return !isPassing(error) || winnerOf(contest)?.outcome.state === 'error';
}

/** The outcome of a target from its plan. `undefined`: it is in its desired state. If the plan acts: `PENDING`. */
export function outcomeOf(plan: Plan | { readonly do: 'later' }): Outcome | undefined {
  if (plan.do === 'nothing') return undefined;
  if (plan.do === 'wait') return { state: 'waiting', for: plan.for, ...causeOf(plan) };
  if (plan.do === 'fail') return { state: 'error', ...causeOf(plan) };
  return plan.do === 'conflict' ? { state: 'conflict', ...causeOf(plan) } : PENDING;
}

/** The outcome of a conflict with another rule, whose name a tenant must not see. */
export function conflictWithRule(message: string): Outcome {
  return { state: 'conflict', ...because('Conflict', message, OTHER_OWNER) };
}

/**
 * The outcome of each claim on a target.
 * @param contest the claims, and whether the target exists
 * @param outcome of the target; `undefined`: the target is in its desired state
 * @param remarks outcomes of claims that differ from `outcome`
 */
export function* outcomesOf(
  contest: Contest & Pick<Facts, 'presence'>,
  outcome: Outcome | undefined,
  remarks?: Remarks,
): Iterable<readonly [Entry, Outcome]> {
  const winner = winnerOf(contest);
  // All claims that lost share one outcome object, because thousands of rules may claim one target.
  const lost = winner && lostTo(winner.claim.owner, contest);
  const filler = fillerOf(contest);
  const leaders = [winner, filler].filter((entry) => entry !== undefined);
  const settled = new Set([
    ...leaders,
    ...leaders.flatMap(({ claim }) => partnersOf(contest, claim).map(({ entry }) => entry)),
  ]);
  for (const entry of contest.entries) {
    const { mode, owner } = entry.claim;
    if (mode === 'release') {
      // A release claim is done when the target lacks the owner's mark. A target that was not read may have the mark.
      const mayBeOwned = contest.markedBy === owner.key || (contest.presence === 'unknown' && winner === undefined);
      yield [entry, mayBeOwned ? (remarks?.release ?? outcome ?? RELEASED) : RELEASED];
    } else if (!settled.has(entry)) {
      yield [entry, mode === 'own' && lost !== undefined ? lost : (refusalOf(contest, entry) ?? FILLED_OTHERWISE)];
    } else {
      yield [entry, (mode === 'fill' ? remarks?.fill : remarks?.own) ?? outcome ?? SYNCED];
    }
  }
}

const FILLED_OTHERWISE = conflictWithRule('another annotation on the object fills it from another source');

/** Why a claim cannot fill the target itself; `undefined`: it could. */
function refusalOf({ observed, viewOf, now }: Contest, { claim }: Entry): Outcome | undefined {
  const desired = claim.shape.desiredState(viewOf(claim), observed, now);
  if (desired.kind === 'wait') return { state: 'waiting', for: desired.for, ...causeOf(desired) };
  return desired.kind === 'fail' ? { state: 'error', ...causeOf(desired) } : desired.remark;
}

function lostTo({ key, title }: Owner, { markedBy }: Contest): Outcome {
  return conflictWithRule(key === markedBy ? `managed by ${title}` : `${title} also claims it and takes precedence`);
}

/** States by severity, the least severe first. All other states do not affect whether the rule is ready. */
const SEVERITY = ['underWay', 'waiting', 'conflict', 'error'] as const;

/** The worst cause among the outcomes of a rule's claims. `undefined`: none has a state in `SEVERITY`. */
export function worstOutcome(entries: Iterable<Entry>): Cause | undefined {
  let worst: Cause | undefined;
  let worstRank = -1;
  for (const { outcome } of entries) {
    const rank = rankOf(outcome);
    if (rank <= worstRank) continue;
    worst = rank === 0 ? PENDING : outcome;
    worstRank = rank;
  }
  return worst;
}

function rankOf(outcome: Outcome): number {
  return (SEVERITY as readonly string[]).indexOf(isUnderWay(outcome) ? 'underWay' : outcome.state);
}
