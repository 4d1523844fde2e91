/**
 * Claims that copy in a cycle: A is copied to B, and B to A. Two values would overwrite each other without end. So nothing is written for
 * such claims; the status of each rule names the others.
 *
 * Claims are edges from the place of their source to their target. The search has two steps:
 * - A *ring* is a strongly connected component of all claims. Nearly always there is none. A claim can close one only if its source is the
 *   target of a claim and its target the source of one, so that other claims cost two look-ups. The search begins at changed claims.
 * - Within a ring, a *cycle* is a strongly connected component of the claims that carry content now (`flowOf`). A claim whose target
 *   is not ours, or whose source does not exist or permits nothing, closes no cycle.
 *
 * Cycles of `fill` claims alone (`replicate-from`) have a guard of their own, which remembers where a chain begins (controllers/replicator).
 *
 * Both steps run at the next query after a change, so that a start runs them once and not for each rule. The result depends only
 * on the claims and on `flowOf`, never on the order of changes.
 */
import { userCause } from '../model/cause.ts';
import { type Claim, targetKeyOfSource, type SourceView } from '../model/claim.ts';
import type { BookChange, ClaimBook } from './claim-book.ts';
import { components } from './components.ts';
import type { ResourceKey } from '../model/keys.ts';
import type { Contest, Facts } from './facts.ts';
import { winnerOf } from './contest.ts';

export interface CyclesOptions {
  readonly book: Pick<ClaimBook, 'on' | 'isClaimed' | 'from' | 'isSource'>;
  /** Without I/O. */
  readonly flowOf: (claim: Claim) => Flow;
  /** Claims on these targets entered or left a cycle. */
  readonly onChange: (targets: Iterable<ResourceKey>) => void;
}

/** Whether a claim would now write its source's content into its target. `unknown`: the state of its source is not known yet. */
export type Flow = 'active' | 'inactive' | 'unknown';

/** @param facts about the claim's target; without cycles in their views */
export function flowOf(claim: Claim, facts: Contest & Pick<Facts, 'observed'>): Flow {
  const { observed } = facts;
  if (claim.mode === 'own') {
    // An object that is not ours is never written.
    if (observed !== undefined && facts.markedBy === undefined) return 'inactive';
    if (winnerOf(facts)?.claim !== claim) return 'inactive';
  }
  const view = facts.viewOf(claim);
  if (view.state === 'unknown') return 'unknown';
  const desired = claim.shape.desiredState(view, observed, facts.now);
  return desired.kind === 'be' && desired.data === 'source' ? 'active' : 'inactive';
}

/** The view of the source of a claim in a cycle, or of a claim that may be in one. */
type CycleView = Extract<SourceView, { state: 'failed' | 'unknown' }>;

const NOT_KNOWN_YET: CycleView = { state: 'unknown' };

interface Ring {
  readonly places: ReadonlySet<ResourceKey>;
  /** Claims between its places that carry content now, or may do so. */
  readonly flowing: Map<Claim, Exclude<Flow, 'inactive'>>;
  cycles: ReadonlyMap<Claim, CycleView>;
}

/** Most rules that one message names. */
const MAX_NAMED = 10;

export class Cycles {
  readonly #options: CyclesOptions;
  readonly #rings = new Map<ResourceKey, Ring>();
  /** Places where rings may have formed or been broken. */
  readonly #roots = new Set<ResourceKey>();
  /** Places of rings where a flow may have changed. */
  readonly #stale = new Set<ResourceKey>();
  /** Views of claims of rings that were broken since the last refresh. */
  readonly #broken: ReadonlyMap<Claim, CycleView>[] = [];

  constructor(options: CyclesOptions) {
    this.#options = options;
  }

  /** Claims were added and removed. */
  changed({ added, removed }: Pick<BookChange, 'added' | 'removed'>): void {
    const { book } = this.#options;
    for (const { claim } of removed) {
      const ring = this.objectChanged(claim.target);
      const place = targetKeyOfSource(claim);
      if (ring !== undefined && place !== undefined && ring.places.has(place)) this.#break(ring);
    }
    for (const { claim } of added) {
      this.objectChanged(claim.target);
      const place = targetKeyOfSource(claim);
      if (place === undefined) continue;
      if (place === claim.target || (book.isClaimed(place) && book.isSource(claim.target))) this.#roots.add(place);
    }
  }

  /** The object at a place changed. It may be a source or a target. */
  objectChanged(place: ResourceKey): Ring | undefined {
    const ring = this.#rings.get(place);
    if (ring !== undefined) this.#stale.add(place);
    return ring;
  }

  get isEmpty(): boolean {
    return this.#rings.size === 0;
  }

  /** Why a claim is not carried out, as a view of its source. `undefined`: it is not part of a cycle. */
  of(claim: Claim): CycleView | undefined {
    this.refresh();
    return this.#rings.get(claim.target)?.cycles.get(claim);
  }

  /** Finds the cycles again, after changes. */
  refresh(): void {
    if (this.#roots.size === 0 && this.#stale.size === 0) return;
    if (this.#roots.size > 0) this.#findRings();
    const before = this.#broken.splice(0);
    const after: ReadonlyMap<Claim, CycleView>[] = [];
    for (const ring of this.#changedFlows()) {
      before.push(ring.cycles);
      ring.cycles = cyclesIn(ring);
      after.push(ring.cycles);
    }
    const targets = changedTargets(before, after);
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
      // The ring existed before, or has grown.
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
      // Most targets are not sources.
      if (claim.target === place || book.isSource(claim.target)) yield claim.target;
    }
  }

  /** Rings with a changed flow. */
  #changedFlows(): Set<Ring> {
    const { book, flowOf } = this.#options;
    const changed = new Set<Ring>();
    for (const place of this.#stale) {
      const ring = this.#rings.get(place);
      if (ring === undefined) continue;
      const update = (claim: Claim): void => {
        const from = targetKeyOfSource(claim);
        if (from === undefined || !ring.places.has(from) || !ring.places.has(claim.target)) return;
        const flow = flowOf(claim);
        if (flow === (ring.flowing.get(claim) ?? 'inactive')) return;
        if (flow === 'inactive') ring.flowing.delete(claim);
        else ring.flowing.set(claim, flow);
        changed.add(ring);
      };
      for (const { claim } of book.from(place)) update(claim);
      for (const { claim } of book.on(place)) update(claim);
    }
    this.#stale.clear();
    return changed;
  }
}

/**
 * The views of the claims of a ring. While the state of a source is unknown, claims that would form a cycle with it wait. So after a
 * restart nothing is written into a cycle.
 */
function cyclesIn({ places, flowing }: Ring): ReadonlyMap<Claim, CycleView> {
  const active = [...flowing].flatMap(([claim, flow]) => (flow === 'active' ? [claim] : []));
  const cycles = new Map<Claim, CycleView>();
  if (active.length < flowing.size) {
    for (const { claims } of cyclesOf(places, flowing.keys()))
      for (const claim of claims) cycles.set(claim, NOT_KNOWN_YET);
  }
  for (const { claims, length } of cyclesOf(places, active)) {
    const view: CycleView = {
      state: 'failed',
      ...userCause('Cycle', messageOf(claims, length), 'its content would return to its origin'),
    };
    for (const claim of claims) cycles.set(claim, view);
  }
  return cycles;
}

/** The cycles that these claims make between the places, each with the number of its places. */
function* cyclesOf(
  places: ReadonlySet<ResourceKey>,
  claims: Iterable<Claim>,
): Iterable<{ readonly claims: readonly Claim[]; readonly length: number }> {
  const flows = Map.groupBy(claims, (claim) => targetKeyOfSource(claim) ?? '');
  const from = (place: ResourceKey): readonly Claim[] => flows.get(place) ?? [];
  for (const component of components(places, (place) => from(place).map(({ target }) => target))) {
    const within = new Set(component);
    const found = component.flatMap((place) => from(place).filter(({ target }) => within.has(target)));
    if (!found.every(({ mode }) => mode === 'fill')) yield { claims: found, length: component.length };
  }
}

/** @param claims of one cycle; in order, if it is a simple one */
function messageOf(claims: readonly Claim[], places: number): string {
  const titles = claims.map(({ owner }) => owner.title);
  // The list begins with the smallest title and target, so that the message is the same after a restart. A rule may occur twice.
  const order = claims.map(({ owner, target }) => `${owner.title} ${target}`);
  let first = 0;
  for (const [index, key] of order.entries()) if (key < (order[first] ?? '')) first = index;
  const ordered = [...titles.slice(first), ...titles.slice(0, first)];
  const isSimple = claims.length === places;
  const names = [...new Set(isSimple ? ordered : titles.toSorted())];
  const rest = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : '';
  const list = names.slice(0, MAX_NAMED).join(isSimple ? ' → ' : ', ');
  return `nothing is written, because these rules copy in a cycle: ${list}${rest}`;
}

/** Targets of claims whose view changed. */
function changedTargets(
  before: readonly ReadonlyMap<Claim, CycleView>[],
  after: readonly ReadonlyMap<Claim, CycleView>[],
): Set<ResourceKey> {
  const old = new Map<Claim, string>();
  for (const cycles of before) for (const [claim, view] of cycles) old.set(claim, textOf(view));
  const targets = new Set<ResourceKey>();
  for (const cycles of after) {
    for (const [claim, view] of cycles) {
      if (old.get(claim) !== textOf(view)) targets.add(claim.target);
      old.delete(claim);
    }
  }
  for (const claim of old.keys()) targets.add(claim.target);
  return targets;
}

function textOf(view: CycleView): string {
  return view.state === 'failed' ? view.message : view.state;
}
