/**
 * Claims whose content would come back to where it began: A is copied to B, and B to A. Carried out, two values would chase each other for
 * ever. So nothing is written for such claims; their rules are told, with the names of the others.
 *
 * Claims are edges from the place of their source to their target. It is found out in two steps:
 * - A *ring* is a strongly connected component of all claims. Nearly always there is none. A claim can close one only if its source is the
 *   target of a claim and its target the source of one, so that others cost two look-ups. The search begins where claims came or went.
 * - Within a ring, a *cycle* is a strongly connected component of the claims that carry content now (`flowOf`): one whose target is
 *   somebody else's object, or whose source is not there or permits nothing, closes no cycle.
 *
 * Claims that all fill (`replicate-from`) are left to their own guard, which remembers where a chain begins (controllers/replicator).
 *
 * Both steps are carried out at the next question after a change, so that the start asks once and not for each rule. What is said depends
 * on the claims and on what `flowOf` says alone, never on the order in which they came.
 */
import { type Claim, placeOf, type SourceView } from '../model/claim.ts';
import type { BookChange, ClaimBook } from './claim-book.ts';
import { components } from './components.ts';
import type { ResourceKey } from '../model/keys.ts';
import type { Contest, Facts } from './facts.ts';
import { winnerOf } from './contest.ts';

export interface CyclesOptions {
  readonly book: Pick<ClaimBook, 'on' | 'isClaimed' | 'from' | 'isSource'>;
  /** Without I/O. */
  readonly flowOf: (claim: Claim) => Flow;
  /** Claims on these targets have become part of a cycle, or ceased to be. */
  readonly onChange: (targets: Iterable<ResourceKey>) => void;
}

/** Whether a claim would write what its source holds into its target, as things are. `unknown`: its source has not been looked up yet. */
export type Flow = 'flows' | 'rests' | 'unknown';

/** @param facts about the claim's target; without cycles in their views */
export function flowOf(claim: Claim, facts: Contest & Pick<Facts, 'observed'>): Flow {
  const { observed } = facts;
  if (claim.mode === 'own') {
    // Somebody's own object is never written.
    if (observed !== undefined && facts.markedBy === undefined) return 'rests';
    if (winnerOf(facts)?.claim !== claim) return 'rests';
  }
  const view = facts.viewOf(claim);
  if (view.state === 'unknown') return 'unknown';
  const desired = claim.shape.desiredState(view, observed, facts.now);
  return desired.kind === 'be' && desired.data === 'source' ? 'flows' : 'rests';
}

/** What is said of a claim instead of its source: it is part of a cycle, or nobody knows yet whether it is. */
type Halt = Extract<SourceView, { state: 'failed' | 'unknown' }>;

const NOT_KNOWN_YET: Halt = { state: 'unknown' };

interface Ring {
  readonly places: ReadonlySet<ResourceKey>;
  /** Claims from one of the places to another that carry content now, or may do so. */
  readonly flowing: Map<Claim, Exclude<Flow, 'rests'>>;
  cycles: ReadonlyMap<Claim, Halt>;
}

/** Rules named in one message. */
const NAMED = 10;

export class Cycles {
  readonly #options: CyclesOptions;
  readonly #rings = new Map<ResourceKey, Ring>();
  /** Where rings may have come to be, or have been broken. */
  readonly #roots = new Set<ResourceKey>();
  /** Places of rings from or to which something may have begun or ceased to flow. */
  readonly #stale = new Set<ResourceKey>();
  /** What was said of claims of rings that are broken since. */
  readonly #broken: ReadonlyMap<Claim, Halt>[] = [];

  constructor(options: CyclesOptions) {
    this.#options = options;
  }

  /** Claims came and went. */
  changed({ added, removed }: Pick<BookChange, 'added' | 'removed'>): void {
    const { book } = this.#options;
    for (const { claim } of removed) {
      const ring = this.touched(claim.target);
      const place = placeOf(claim);
      if (ring !== undefined && place !== undefined && ring.places.has(place)) this.#break(ring);
    }
    for (const { claim } of added) {
      this.touched(claim.target);
      const place = placeOf(claim);
      if (place === undefined) continue;
      if (place === claim.target || (book.isClaimed(place) && book.isSource(claim.target))) this.#roots.add(place);
    }
  }

  /** Something about the object at a place changed, which may be a source or a target. */
  touched(place: ResourceKey): Ring | undefined {
    const ring = this.#rings.get(place);
    if (ring !== undefined) this.#stale.add(place);
    return ring;
  }

  /** There are no rings, so that nothing need be touched. */
  get isEmpty(): boolean {
    return this.#rings.size === 0;
  }

  /** Why a claim is not carried out, as a view of its source; `undefined`: it is part of no cycle. */
  of(claim: Claim): Halt | undefined {
    this.refresh();
    return this.#rings.get(claim.target)?.cycles.get(claim);
  }

  /** Takes all changes into account. */
  refresh(): void {
    if (this.#roots.size === 0 && this.#stale.size === 0) return;
    if (this.#roots.size > 0) this.#findRings();
    const before = this.#broken.splice(0);
    const after: ReadonlyMap<Claim, Halt>[] = [];
    for (const ring of this.#changedFlows()) {
      before.push(ring.cycles);
      ring.cycles = cyclesIn(ring);
      after.push(ring.cycles);
    }
    const targets = differing(before, after);
    if (targets.size > 0) this.#options.onChange(targets);
  }

  #break(ring: Ring): void {
    for (const place of ring.places) {
      this.#rings.delete(place);
      this.#roots.add(place);
    }
    this.#broken.push(ring.cycles);
  }

  #findRings(): void {
    const found = components(this.#roots, (place) => this.#successors(place));
    for (const places of found) {
      // One that was there already, or that has grown.
      for (const place of places) {
        const old = this.#rings.get(place);
        if (old !== undefined) this.#break(old);
      }
      const ring: Ring = { places: new Set(places), flowing: new Map(), cycles: new Map() };
      for (const place of places) {
        this.#rings.set(place, ring);
        this.#stale.add(place);
      }
    }
    this.#roots.clear();
  }

  *#successors(place: ResourceKey): Iterable<ResourceKey> {
    const { book } = this.#options;
    for (const { claim } of book.from(place)) {
      // From most targets nothing is copied on.
      if (claim.target === place || book.isSource(claim.target)) yield claim.target;
    }
  }

  /** Rings in which something has begun or ceased to flow. */
  #changedFlows(): Set<Ring> {
    const { book, flowOf } = this.#options;
    const changed = new Set<Ring>();
    for (const place of this.#stale) {
      const ring = this.#rings.get(place);
      if (ring === undefined) continue;
      const look = (claim: Claim): void => {
        const from = placeOf(claim);
        if (from === undefined || !ring.places.has(from) || !ring.places.has(claim.target)) return;
        const flow = flowOf(claim);
        if (flow === (ring.flowing.get(claim) ?? 'rests')) return;
        if (flow === 'rests') ring.flowing.delete(claim);
        else ring.flowing.set(claim, flow);
        changed.add(ring);
      };
      for (const { claim } of book.from(place)) look(claim);
      for (const { claim } of book.on(place)) look(claim);
    }
    this.#stale.clear();
    return changed;
  }
}

/**
 * What is said of the claims of a ring. As long as a source has not been looked up, claims that would be in a cycle with it wait: after a
 * restart nothing is written into a cycle that was known before.
 */
function cyclesIn({ places, flowing }: Ring): ReadonlyMap<Claim, Halt> {
  const certain = [...flowing].flatMap(([claim, flow]) => (flow === 'flows' ? [claim] : []));
  const cycles = new Map<Claim, Halt>();
  if (certain.length < flowing.size) {
    for (const { claims } of cyclesOf(places, flowing.keys()))
      for (const claim of claims) cycles.set(claim, NOT_KNOWN_YET);
  }
  for (const { claims, length } of cyclesOf(places, certain)) {
    const view: Halt = { state: 'failed', reason: 'Cycle', message: messageOf(claims, length) };
    for (const claim of claims) cycles.set(claim, view);
  }
  return cycles;
}

/** The cycles that these claims make between the places, each with the number of its places. */
function* cyclesOf(
  places: ReadonlySet<ResourceKey>,
  claims: Iterable<Claim>,
): Iterable<{ readonly claims: readonly Claim[]; readonly length: number }> {
  const flows = Map.groupBy(claims, (claim) => placeOf(claim) ?? '');
  const from = (place: ResourceKey): readonly Claim[] => flows.get(place) ?? [];
  for (const component of components(places, (place) => from(place).map(({ target }) => target))) {
    const within = new Set(component);
    const found = component.flatMap((place) => from(place).filter(({ target }) => within.has(target)));
    if (!found.every(({ mode }) => mode === 'fill')) yield { claims: found, length: component.length };
  }
}

/** @param claims of one cycle; along it, if it is a simple one */
function messageOf(claims: readonly Claim[], places: number): string {
  const titles = claims.map(({ owner }) => owner.title);
  // A rule may be there more than once: where its name begins is decided by its targets, so that a restart says the same.
  const order = claims.map(({ owner, target }) => `${owner.title} ${target}`);
  let first = 0;
  for (const [index, key] of order.entries()) if (key < (order[first] ?? '')) first = index;
  const along = [...titles.slice(first), ...titles.slice(0, first)];
  const simple = claims.length === places;
  const names = [...new Set(simple ? along : titles.toSorted())];
  const rest = names.length > NAMED ? ` and ${names.length - NAMED} more` : '';
  const list = names.slice(0, NAMED).join(simple ? ' → ' : ', ');
  return `nothing is written, because these rules copy in a cycle: ${list}${rest}`;
}

/** Targets of claims of which something else is said than before. */
function differing(
  before: readonly ReadonlyMap<Claim, Halt>[],
  after: readonly ReadonlyMap<Claim, Halt>[],
): Set<ResourceKey> {
  const said = new Map<Claim, string>();
  for (const cycles of before) for (const [claim, halt] of cycles) said.set(claim, textOf(halt));
  const targets = new Set<ResourceKey>();
  for (const cycles of after) {
    for (const [claim, halt] of cycles) {
      if (said.get(claim) !== textOf(halt)) targets.add(claim.target);
      said.delete(claim);
    }
  }
  for (const claim of said.keys()) targets.add(claim.target);
  return targets;
}

function textOf(halt: Halt): string {
  return halt.state === 'failed' ? halt.message : halt.state;
}
