/** Strongly connected components of a directed graph (Tarjan 1972), without recursion: users can create chains of any length. */

interface Visit {
  readonly place: string;
  readonly next: Iterator<string>;
}

/**
 * The components with a cycle: two places or more, or one with an edge to itself.
 * @param roots where the search begins
 * @returns the places of each component, in the order of the search
 */
export function components(roots: Iterable<string>, successors: (place: string) => Iterable<string>): string[][] {
  const found: string[][] = [];
  const order = new Map<string, number>();
  /** The smallest `order` among the open places that a place is known to reach (Tarjan: lowlink). */
  const low = new Map<string, number>();
  /** Places whose component is not complete, in their order. */
  const open: string[] = [];
  const isOpen = new Set<string>();
  const selfLoops = new Set<string>();
  const path: Visit[] = [];
  const enter = (place: string): void => {
    low.set(place, order.size);
    order.set(place, order.size);
    open.push(place);
    isOpen.add(place);
    path.push({ place, next: successors(place)[Symbol.iterator]() });
  };
  const lower = (place: string, to: number): void => {
    low.set(place, Math.min(low.get(place) ?? to, to));
  };
  for (const root of roots) {
    if (!order.has(root)) enter(root);
    for (let visit = path.at(-1); visit !== undefined; visit = path.at(-1)) {
      const { place, next } = visit;
      const step = next.next();
      if (step.done !== true) {
        const to = step.value;
        const known = order.get(to);
        if (to === place) selfLoops.add(place);
        if (known === undefined) enter(to);
        else if (isOpen.has(to)) lower(place, known);
        continue;
      }
      path.pop();
      const lowest = low.get(place) ?? 0;
      const parent = path.at(-1);
      if (parent !== undefined) lower(parent.place, lowest);
      if (lowest !== order.get(place)) continue;
      const component = open.splice(open.lastIndexOf(place));
      for (const one of component) isOpen.delete(one);
      if (component.length > 1 || selfLoops.has(place)) found.push(component);
    }
  }
  return found;
}
