/**
 * Decides one target: gathers the facts that `plan` needs, until the plan needs no more.
 *
 *   facts at hand ──plan──▶ decision
 *        ▲            └───▶ need: source, target or owner ──read──▶ again
 *        └─────────────────────────────────────────────────────────────┘
 *
 * The operator and the short commands all decide with this function, each with a fact source of its own: caches and single reads, or
 * lists that were taken once. So a command cannot report anything but what the operator would do. A fact source may hold reads back
 * and do those of many decisions together.
 */
import type { Claim, SourceView } from '../model/claim.ts';
import type { Fingerprint } from '../model/fingerprint.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import type { Observed } from '../model/observed.ts';
import type { ClaimBook } from './claim-book.ts';
import type { Contest, Facts, Need, OwnerFate, Plan } from './facts.ts';
import { plan } from './plan.ts';

/** The claims on targets, and the marks on them. */
export interface ClaimFacts {
  readonly book: Pick<ClaimBook, 'on' | 'userOf'>;
  /** Why a claim that is part of a cycle is not carried out, as a view of its source. */
  readonly cycleOf: (claim: Claim) => SourceView | undefined;
  /** The rule whose mark on `observed` counts. */
  readonly ownerOf: (observed: Observed, target: ResourceKey) => RuleKey | undefined;
  /** Wall clock, ms. */
  readonly now: () => number;
}

/** What is known of a target without reading it. */
export type TargetState = Pick<
  Facts,
  'presence' | 'observed' | 'goingAway' | 'held' | 'type' | 'frozen' | 'takeoverFailed'
>;

export interface FactSource {
  targetState(target: ResourceKey): TargetState;
  /** What is known of a source without reading it. */
  view(source: ResourceKey | undefined): SourceView;
  /** The fingerprint of the source's content, if it was read. */
  fingerprint(source: ResourceKey | undefined): Fingerprint | undefined;
  /** Reads the content of a source. @returns false if it cannot be had now */
  readSource(source: ResourceKey): Promise<boolean>;
  /** Reads a target with its content. @returns false if it cannot be had now */
  readTarget(target: ResourceKey): Promise<boolean>;
  /** What to do with a target whose owner does not claim it. `later`: the owner's claims are not up to date. */
  fateOf(owner: RuleKey, target: ResourceKey, observed: Observed): Promise<OwnerFate | 'later'>;
}

export interface Decision {
  readonly facts: Facts;
  /** `later`: a fact cannot be had now, or the target changes faster than it is read. */
  readonly plan: Exclude<Plan, Need> | { readonly do: 'later' };
}

/** A plan needs fewer facts than this. */
const MAX_ROUNDS = 8;

/** @throws what the fact source throws */
export async function decide(target: ResourceKey, claims: ClaimFacts, source: FactSource): Promise<Decision> {
  /** Of the target at one version: the next version may name another owner, or say that it stays. */
  let fate: { readonly of: string | undefined; readonly fate: OwnerFate } | undefined;
  let facts = factsOf(target, claims, source);
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const decision = plan(facts);
    if (decision.do !== 'need') return { facts, plan: decision };
    if (decision.fact === 'owner') {
      const { markedBy, observed } = facts;
      if (markedBy === undefined || observed === undefined) break;
      const answer = await source.fateOf(markedBy, target, observed);
      if (answer === 'later') break;
      fate = { of: observed.resourceVersion, fate: answer };
    } else if (!(await read(decision, facts, target, source))) break;
    const known = factsOf(target, claims, source);
    facts = fate?.of === known.observed?.resourceVersion ? { ...known, ownerFate: fate?.fate } : known;
  }
  return { facts, plan: { do: 'later' } };
}

async function read(
  need: Exclude<Need, { fact: 'owner' }>,
  facts: Facts,
  target: ResourceKey,
  source: FactSource,
): Promise<boolean> {
  if (need.fact === 'target') return await source.readTarget(target);
  const { claim } = need;
  if (claim.source === undefined || facts.viewOf(claim).state !== 'present') return false;
  return await source.readSource(claim.source);
}

/** The facts at hand. */
export function factsOf(target: ResourceKey, claims: ClaimFacts, source: FactSource): Facts {
  const state = source.targetState(target);
  return {
    ...contestOf(target, state.observed, claims, (claim) => claims.cycleOf(claim) ?? source.view(claim.source)),
    ...state,
    usedBy: claims.book.userOf(target),
    fingerprintOf: (claim) => source.fingerprint(claim.source),
    ownerFate: undefined,
  };
}

/** The claims on a target, and what decides between them. */
export function contestOf(
  target: ResourceKey,
  observed: Observed | undefined,
  { book, ownerOf, now }: Omit<ClaimFacts, 'cycleOf'>,
  viewOf: Contest['viewOf'],
): Contest {
  return { entries: book.on(target), markedBy: observed && ownerOf(observed, target), viewOf, now: now() };
}
