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
import { parseResourceKey, type ResourceKey, type RuleKey } from '../model/keys.ts';
import type { Observed } from '../model/observed.ts';
import type { Claims } from './claims.ts';
import { type Flow, flowOf } from './cycles.ts';
import type { Facts, Need, OwnerFate, Plan } from './facts.ts';
import { plan } from './plan.ts';

/** What is known of a target without reading it. */
export type TargetState = Pick<
  Facts,
  'presence' | 'observed' | 'goingAway' | 'held' | 'type' | 'frozen' | 'takeoverFailed'
>;

/** The claims on a target, and the marks on it. */
export type ClaimFacts = Pick<Claims, 'book' | 'cycleOf' | 'ownerOf'>;

export interface FactSource {
  /** Wall clock, ms. */
  now(): number;
  /** Whether the namespace is known. Claims on targets in an unknown one may still be missing. */
  hasNamespace(name: string): boolean;
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
      const answer = await fateOf(markedBy, target, observed, source);
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

/** What to do with a target whose owner does not claim it. */
export async function fateOf(
  owner: RuleKey,
  target: ResourceKey,
  observed: Observed,
  source: FactSource,
): Promise<OwnerFate | 'later'> {
  if (!source.hasNamespace(parseResourceKey(target).namespace)) return 'later';
  return await source.fateOf(owner, target, observed);
}

/** The facts at hand. */
export function factsOf(target: ResourceKey, claims: ClaimFacts, source: FactSource): Facts {
  const state = source.targetState(target);
  return {
    ...state,
    entries: claims.book.on(target),
    markedBy: state.observed && claims.ownerOf(state.observed, target),
    viewOf: (claim) => claims.cycleOf(claim) ?? source.view(claim.source),
    now: source.now(),
    usedBy: claims.book.userOf(target),
    fingerprintOf: (claim) => source.fingerprint(claim.source),
    ownerFate: undefined,
  };
}

/** The flow of a claim on a target in a cluster, without I/O. Cycles are derived from flows, so that they play no part here. */
export function flowIn(claim: Claim, claims: ClaimFacts, source: FactSource): Flow {
  const facts = factsOf(claim.target, claims, source);
  return flowOf(claim, { ...facts, viewOf: (one) => source.view(one.source) });
}
