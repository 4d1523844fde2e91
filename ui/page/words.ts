/** How the page says things: states by a form first and a colour second, numbers, ages, and texts made safe. Pure. */

/** Worst first. `refused`: a limit or consent forbids it. `unknown`: the caller may not read it. */
export const STATES = ['bad', 'waiting', 'pending', 'refused', 'unknown', 'ok'] as const;
export type State = (typeof STATES)[number];

/** `height`: of its mark on the map, as a share of the line. */
export const LOOK = {
  bad: { glyph: '✕', word: 'not made', height: 0.86 },
  waiting: { glyph: '‖', word: 'waiting', height: 0.5 },
  pending: { glyph: '◔', word: 'about to be written', height: 0.55 },
  refused: { glyph: '⊘', word: 'not allowed', height: 0.1 },
  unknown: { glyph: '?', word: 'not known', height: 0.1 },
  ok: { glyph: '✓', word: 'up to date', height: 0.36 },
  orphan: { glyph: '◇', word: 'without a rule' },
} as const satisfies Readonly<Record<State | 'orphan', object>>;

/** Sorts the worst first. */
export const byState = (a: State, b: State): number => STATES.indexOf(a) - STATES.indexOf(b);

export const worse = (a: State, b: State): State => (byState(a, b) <= 0 ? a : b);

/** Characters that are not seen or change the order of others: control and format characters, and line separators. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The text with its unseen characters spelled out: `‹U+202E›`. */
export function visible(text: string): string {
  const spelled = (char: string): string =>
    char === '\n' ? char : `‹U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}›`;
  return text.toWellFormed().replace(UNSEEN, spelled);
}

export const number = (value: number): string => value.toLocaleString('en');

/** `1 rule`, `2,000 rules` */
export function count(value: number, one: string, many = `${one}s`): string {
  return `${number(value)} ${value === 1 ? one : many}`;
}

export const copies = (value: number): string => count(value, 'copy', 'copies');

/** `Conflict: the object belongs to …` */
export function why({ reason, message }: { readonly reason: string; readonly message: string }): string {
  return [reason, message].filter((text) => text !== '').join(': ');
}

/** `12 min`, `3 h`, `6 days`. Both times are RFC 3339. */
export function age(since: string, at: string): string {
  const seconds = Math.max(0, Math.round((Date.parse(at) - Date.parse(since)) / 1000));
  if (Number.isNaN(seconds)) return 'an unknown time';
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}
