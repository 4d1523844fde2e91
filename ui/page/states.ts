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

/** Sorts the worst first. */
export const byState = (a: State, b: State): number => STATES.indexOf(a) - STATES.indexOf(b);

export const worse = (a: State, b: State): State => (byState(a, b) <= 0 ? a : b);
