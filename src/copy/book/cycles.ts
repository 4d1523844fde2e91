/**
 * Finds claims that copy in a cycle: A is copied to B, and B to A. Two values would overwrite each other without end.
 * So nothing is written for such claims, and the status of each rule names the other rules.
 *
 * A claim is an edge from its source to its target. Only claims that copy content at present count. A claim closes no
 * cycle if its target belongs to a user, or if its source does not exist or must not be copied. A walk from a claim to
 * its source, to the sources of that source, and so on, finds out whether the claim is in a cycle:
 *
 *   claim ──its source──▶ the claims that fill it ──their sources──▶ … ──▶ the target of the claim: a cycle
 *
 * A walk is needed only if the source of a claim is also a target, and its target also a source. So all other claims
 * cost two look-ups. A walk ends after `MAX_PLACES` objects or entries. A longer chain of copies is treated as a cycle,
 * so that no user can make walks expensive.
 *
 * For cycles of only `fill` claims (`replicate-from`) there is another check, in `controllers/replicator`.
 *
 * The result depends only on the claims and their content, never on the order of changes. If the result for a target
 * changes, `visited` has the targets of its copies decided again, because their walks lead through this target.
 */
import { someOf } from '../../runtime/text/texts.ts';
import { userCause } from '../model/cause.ts';
import { type Claim, type Claimed, targetKeyOfSource, type SourceView } from '../model/claim.ts';
import type { ClaimBook } from './claim-book.ts';
import type { ResourceKey } from '../model/keys.ts';
import type { Facts } from '../plan/facts.ts';
import type { Contest } from '../plan/facts.ts';
import { winnerOf } from '../plan/contest.ts';

export interface CyclesOptions {
  readonly book: Pick<ClaimBook, 'on' | 'isClaimed' | 'from' | 'isSource'>;
  /** The claims that would copy their source into this target if it were written now. From memory alone. */
  readonly flowsInto: (target: ResourceKey) => Flows;
  /** Called with targets whose claims may have entered or left a cycle. */
  readonly onChange: (targets: Iterable<ResourceKey>) => void;
}

/** The claims that copy content. `unknown`: perhaps, because the state of the source is not known yet. */
export type Flows = ReadonlyMap<Claim, 'active' | 'unknown'>;

/** The claims that copy content into a target. @param facts of the target; its source states must ignore cycles */
export function flowsOf(facts: Contest & Pick<Facts, 'observed'>): Flows {
  const { entries, observed, markedBy, viewOf, now } = facts;
  const flows = new Map<Claim, 'active' | 'unknown'>();
  // Keyferry never writes an object of a user, so no claim copies content into it.
  const winner = observed !== undefined && markedBy === undefined ? undefined : winnerOf(facts)?.claim;
  for (const { claim } of entries) {
    if (claim.mode === 'own' && claim !== winner) continue;
    const view = viewOf(claim);
    if (view.state === 'unknown') {
      flows.set(claim, 'unknown');
      continue;
    }
    const desired = claim.shape.desiredState(view, observed, now);
    if (desired.kind === 'be' && desired.data === 'source') flows.set(claim, 'active');
  }
  return flows;
}

/** The state that is reported for a claim's source: `failed`: the claim is in a cycle. `unknown`: it may be in one. */
type CycleView = Extract<SourceView, { state: 'failed' | 'unknown' }>;

const NOT_KNOWN_YET: CycleView = { state: 'unknown' };

/** Most objects or entries that a walk visits. The longest chain of copies that controllers make has four. */
const MAX_PLACES = 32;
const TOO_LONG: CycleView = failed(
  `nothing is written, because the content comes through more than ${MAX_PLACES} copies, one after the other: a cycle, or a chain that is too long`,
);

/** A claim as an edge to one of its targets. */
interface Edge extends Claimed {
  readonly from: ResourceKey;
  readonly isKnown: boolean;
}

interface Walk {
  /** The edges that the walk has seen, as text. If it changes, walks that lead through this target may change, too. */
  readonly seen: string;
  readonly view: CycleView | undefined;
}

/** Most rules that one message names. */
const MAX_NAMED = 10;

export class Cycles {
  readonly #options: CyclesOptions;
  /** For each target, the results of the walks of its claims, as text; absent: there are none. */
  readonly #found = new Map<ResourceKey, string>();

  constructor(options: CyclesOptions) {
    this.#options = options;
  }

  /** Returns a function that gives the state of a claim's source if the claim is in a cycle; `undefined`: it is not. */
  viewsOn(target: ResourceKey): (claim: Claim) => CycleView | undefined {
    // Computed only once for all claims, because thousands of them may be on one target.
    let flows: Flows | undefined;
    return (claim) => {
      const claimed = { target, claim };
      if (!this.#mayCircle(claimed)) return undefined;
      flows ??= this.#options.flowsInto(target);
      return flows.has(claim) ? this.#walk(claimed, flows).view : undefined;
    };
  }

  /** Called when a target is decided again. If its cycles changed, the targets of its copies are decided again, too. */
  visited(target: ResourceKey): void {
    const { book, onChange } = this.#options;
    const before = this.#found.get(target);
    const now = book.isSource(target) ? this.#findOn(target) : undefined;
    if (now === before) return;
    if (now === undefined) this.#found.delete(target);
    else this.#found.set(target, now);
    const behind = Array.from(book.from(target), (entry) => entry.target);
    // Most targets are no sources, and so are in no cycle. But a target that was a source may have been in a cycle.
    onChange(behind.filter((place) => book.isSource(place) || this.#found.has(place)));
  }

  #findOn(target: ResourceKey): string | undefined {
    const { book, flowsInto } = this.#options;
    const entries = book.on(target).filter((entry) => this.#mayCircle(entry));
    if (entries.length === 0) return undefined;
    const flows = flowsInto(target);
    const found = entries.flatMap((entry) => {
      if (!flows.has(entry.claim)) return [];
      const { seen, view } = this.#walk(entry, flows);
      return `${seen} ${view?.state === 'failed' ? view.message : (view?.state ?? '')}`;
    });
    return found.length === 0 ? undefined : found.join('\n');
  }

  #mayCircle({ target, claim }: Claimed): boolean {
    const { book } = this.#options;
    const from = targetKeyOfSource(claim);
    if (from === undefined) return false;
    return from === target || (book.isClaimed(from) && book.isSource(target));
  }

  /** @param flows the claims that copy content into the target of this claim */
  #walk(claimed: Claimed, flows: Flows): Walk {
    const { target } = claimed;
    const start = targetKeyOfSource(claimed.claim);
    if (start === undefined) return { seen: '', view: undefined };
    const edges: Edge[] = [];
    const places = new Set([start]);
    for (const place of places) {
      if (places.size > MAX_PLACES) return { seen: 'too long', view: TOO_LONG };
      const into = place === target ? flows : this.#options.flowsInto(place);
      for (const [claim, flow] of into) {
        const from = targetKeyOfSource(claim);
        if (from === undefined) continue;
        edges.push({ target: place, claim, from, isKnown: flow === 'active' });
        if (this.#options.book.isClaimed(from)) places.add(from);
      }
    }
    const seen = edges.map(({ target: to, claim: { owner, mode }, from, isKnown }) =>
      [owner.key, mode, from, to, isKnown].join(' '),
    );
    return { seen: seen.toSorted().join(), view: places.has(target) ? viewIn(claimed, edges) : undefined };
  }
}

/**
 * The state of the claim's source if there is a cycle. If it is unknown whether a source closes the cycle, the claim
 * waits. So after a restart nothing is written into a cycle.
 * @param edges all edges that lead to the source of the claim
 */
function viewIn(claimed: Claimed, edges: readonly Edge[]): CycleView | undefined {
  const known = edges.filter(({ isKnown }) => isKnown);
  const cycle = cycleOf(claimed, known);
  if (cycle !== undefined) return failed(messageOf(cycle.edges, cycle.places));
  return cycleOf(claimed, edges) === undefined ? undefined : NOT_KNOWN_YET;
}

function failed(message: string): CycleView {
  return { state: 'failed', ...userCause('Cycle', message, 'the content would return to its origin') };
}

/** The cycle that the claim is in. `undefined`: there is none, or it has only `fill` claims. */
function cycleOf(
  { target, claim }: Claimed,
  all: readonly Edge[],
): { readonly edges: readonly Edge[]; readonly places: number } | undefined {
  const ahead = reached(target, all, (edge) => [edge.from, edge.target]);
  const back = reached(target, all, (edge) => [edge.target, edge.from]);
  const places = [...ahead].filter((place) => back.has(place));
  const within = new Set(places);
  // The edges are in the order in which content is copied.
  const edges = places.flatMap((place) => all.filter((edge) => edge.from === place && within.has(edge.target)));
  const isPart = edges.some((edge) => edge.claim === claim && edge.target === target);
  return isPart && edges.some((edge) => edge.claim.mode !== 'fill') ? { edges, places: places.length } : undefined;
}

/** All objects and entries that the edges lead to from `start`, including `start`. */
function reached(
  start: ResourceKey,
  edges: readonly Edge[],
  ends: (edge: Edge) => readonly [from: ResourceKey, to: ResourceKey],
): ReadonlySet<ResourceKey> {
  const places = new Set([start]);
  for (const place of places) {
    for (const edge of edges) {
      const [from, to] = ends(edge);
      if (from === place) places.add(to);
    }
  }
  return places;
}

/** @param edges the edges of one cycle, in the order of copying if each target is in it only once */
function messageOf(edges: readonly Edge[], places: number): string {
  const titles = edges.map(({ claim }) => claim.owner.title);
  // The list begins with the smallest title and target, so that the message is the same after a restart.
  const order = edges.map(({ target, claim }) => `${claim.owner.title} ${target}`);
  let first = 0;
  for (const [index, key] of order.entries()) if (key < (order[first] ?? '')) first = index;
  const ordered = [...titles.slice(first), ...titles.slice(0, first)];
  const isSimple = edges.length === places;
  const names = [...new Set(isSimple ? ordered : titles.toSorted())];
  const list = someOf(names, MAX_NAMED, isSimple ? ' → ' : ', ');
  return `nothing is written, because these rules copy in a cycle: ${list}`;
}
