/** The states of copies and rules: a form first, a colour second. */

/** Worst first. `refused`: a limit or consent forbids it. `unknown`: the caller may not read it. */
export const STATES = ['bad', 'waiting', 'pending', 'refused', 'unknown', 'ok'] as const;
export type State = (typeof STATES)[number];

export const LOOK: Readonly<Record<State, { readonly glyph: string; readonly word: string }>> = {
  bad: { glyph: '✕', word: 'not made' },
  waiting: { glyph: '‖', word: 'waiting' },
  pending: { glyph: '◔', word: 'about to be written' },
  refused: { glyph: '⊘', word: 'not allowed' },
  unknown: { glyph: '?', word: 'not known' },
  ok: { glyph: '✓', word: 'up to date' },
};

export function isState(text: string): text is State {
  return (STATES as readonly string[]).includes(text);
}

const RANK = new Map(STATES.map((state, rank) => [state, rank]));

/** Sorts the worst first. */
export function byState(a: State, b: State): number {
  return (RANK.get(a) ?? 0) - (RANK.get(b) ?? 0);
}

export function worst(states: Iterable<State>): State {
  let found: State = 'ok';
  for (const state of states) if (byState(state, found) < 0) found = state;
  return found;
}
