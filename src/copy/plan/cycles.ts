/**
 * Finds claims that copy in a cycle: A is copied to B, and B to A. Two values would overwrite each other without end.
 * So nothing is written for such claims, and the status of each rule names the other rules.
 *
 * The rule: a claim leads from its source to its target if it would copy now, that is, if its source exists, its shape
 * copies the source's data, and the target has the mark of its rule, or is free (it does not exist, or is an entry in
 * Vault) and the claim wins it; `fill` claims need no mark. A claim is in a cycle if claims lead from its target to its
 * source, except if all are `fill` claims whose shapes refuse loops themselves (`refusesLoops`).
 *
 *   claim ──its source──▶ the claims that lead there ──their sources──▶ … ──▶ the target of the claim: a cycle
 *
 * So a rule that may not write a target closes no cycle, and stops nobody's copies. The result depends only on claims
 * and objects, never on the order of changes. A walk ends after `MAX_PLACES` objects or entries, and a longer chain
 * counts as a cycle, so that no user can make walks expensive.
 */
import { someOf } from '../../runtime/text/texts.ts';
import { because } from '../model/cause.ts';
import { REASONS } from '../model/reasons.ts';
import { type Claim, type Claimed, targetKeyOfSource, type SourceView } from '../model/claim.ts';
import type { ClaimBook } from '../book/claim-book.ts';
import { controllerOf, type ResourceKey } from '../model/keys.ts';
import { winnerOf } from './contest.ts';
import type { Contest } from './facts.ts';

export interface CyclesOptions {
  readonly book: Pick<ClaimBook, 'on' | 'isClaimed' | 'from' | 'isSource'>;
  /** What the caches know about the claims on a target. Its views must ignore cycles, which follow from it. */
  readonly contestOf: (target: ResourceKey) => Contest;
  /** Called with targets whose claims may have entered or left a cycle. */
  readonly onChange: (targets: Iterable<ResourceKey>) => void;
}

/** The state that is reported for a claim's source: `failed`: the claim is in a cycle. `unknown`: it may be in one. */
type CycleView = Extract<SourceView, { state: 'failed' | 'unknown' }>;

/** A claim that leads from its source to one of its targets. */
interface Edge extends Claimed {
  readonly from: ResourceKey;
  /** Whether the source is known to exist. */
  readonly isKnown: boolean;
  readonly refusesLoops: boolean;
}

interface Walk {
  /** The edges that the walk has seen, as text. If it changes, walks that lead through this target may change, too. */
  readonly seen: string;
  readonly view: CycleView | undefined;
}

/** Most objects or entries that a walk visits. The longest chain of copies that controllers make has four. */
const MAX_PLACES = 32;
/** Most rules that one message names. */
const MAX_NAMED = 10;
const TOO_LONG: Walk = {
  seen: 'too long',
  view: failed(
    `nothing is written, because the content comes through more than ${MAX_PLACES} copies, one after the other: a cycle, or a chain that is too long`,
  ),
};

export class Cycles {
  readonly #options: CyclesOptions;
  /** For each target, the edges that the walks of its claims have seen, as text; absent: there are none. */
  readonly #seen = new Map<ResourceKey, string>();

  constructor(options: CyclesOptions) {
    this.#options = options;
  }

  /** Returns a function that gives the state of a claim's source if the claim is in a cycle; `undefined`: it is not. */
  viewsOn(target: ResourceKey): (claim: Claim) => CycleView | undefined {
    let walks: ReadonlyMap<Claim, Walk> | undefined;
    return (claim) => (walks ??= this.#walks(target)).get(claim)?.view;
  }

  /** Called when a target is decided again. If its cycles changed, the targets of its copies are decided again, too. */
  visited(target: ResourceKey): void {
    const { book, onChange } = this.#options;
    const now = Array.from(this.#walks(target).values(), ({ seen }) => seen).join('\n');
    if (now === (this.#seen.get(target) ?? '')) return;
    if (now === '') this.#seen.delete(target);
    else this.#seen.set(target, now);
    const behind = Array.from(book.from(target), (entry) => entry.target);
    // Most targets are no sources, and so are in no cycle. But a target that was a source may have been in a cycle.
    onChange(behind.filter((place) => book.isSource(place) || this.#seen.has(place)));
  }

  /** The walks of all claims that lead to the target, if they may be in a cycle. Most targets need two look-ups. */
  #walks(target: ResourceKey): ReadonlyMap<Claim, Walk> {
    const { book } = this.#options;
    const isClaimed = (place: ResourceKey | undefined): boolean => place !== undefined && book.isClaimed(place);
    const mayCircle = book.isSource(target) && book.on(target).some(({ claim }) => isClaimed(targetKeyOfSource(claim)));
    const edges = mayCircle ? this.#edgesInto(target).filter(({ from }) => isClaimed(from)) : [];
    return new Map(edges.map((edge) => [edge.claim, this.#walk(edge)]));
  }

  /** The claims that lead to a target: at most one of mode `own`. */
  #edgesInto(target: ResourceKey): Edge[] {
    const contest = this.#options.contestOf(target);
    const { entries, observed, markedBy, viewOf, now } = contest;
    const owner = observed === undefined ? winnerOf(contest)?.claim.owner.key : markedBy;
    return entries.flatMap(({ claim }) => {
      const from = targetKeyOfSource(claim);
      if (from === undefined || (claim.mode === 'own' && claim.owner.key !== owner)) return [];
      const view = viewOf(claim);
      if (view.state === 'unknown') return { target, claim, from, isKnown: false, refusesLoops: false };
      const desired = claim.shape.desiredState(view, observed, now);
      if (desired.kind !== 'be' || desired.data !== 'source') return [];
      return { target, claim, from, isKnown: true, refusesLoops: desired.refusesLoops === true };
    });
  }

  #walk(edge: Edge): Walk {
    const edges: Edge[] = [];
    const places = new Set([edge.from]);
    for (const place of places) {
      if (places.size > MAX_PLACES) return TOO_LONG;
      for (const before of this.#edgesInto(place)) {
        edges.push(before);
        if (this.#options.book.isClaimed(before.from)) places.add(before.from);
      }
    }
    const seen = [edge, ...edges].map(({ target: to, claim: { owner, mode }, from, isKnown }) =>
      [owner.key, mode, from, to, isKnown].join(' '),
    );
    return {
      seen: seen.toSorted().join(),
      view: places.has(edge.target) ? viewOf(edge.target, edges) : undefined,
    };
  }
}

/**
 * The state of a source from which claims lead in a cycle through `target`. While it is unknown whether a source of the
 * cycle exists, the claim waits. So after a restart nothing is written into a cycle.
 * @param edges all edges that lead to the target
 */
function viewOf(target: ResourceKey, edges: readonly Edge[]): CycleView | undefined {
  const places = new Set([target]);
  for (const place of places) for (const edge of edges) if (edge.from === place) places.add(edge.target);
  // In the order in which content is copied.
  const cycle = [...places].flatMap((place) => edges.filter((edge) => edge.from === place));
  if (cycle.every(({ claim, refusesLoops }) => claim.mode === 'fill' && refusesLoops)) return undefined;
  if (!cycle.every(({ isKnown }) => isKnown)) return { state: 'unknown' };
  const controllers = new Set(cycle.map(({ claim }) => controllerOf(claim.owner.key)));
  const isLoop = controllers.size === 1 && cycle.every(({ claim }) => claim.mode === 'fill');
  return failed(messageOf(cycle, places.size), isLoop ? 'Loop' : 'Cycle');
}

/** @param reason `Loop`: objects of one controller fill each other */
function failed(message: string, reason: 'Cycle' | 'Loop' = 'Cycle'): CycleView {
  return { state: 'failed', ...because(reason, message, REASONS[reason].says) };
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
