/**
 * The lines of the map: a head for the rules of a namespace, a rule, or several rules in one line (a fold). Pure.
 *
 * Rules are grouped by namespace if it has 3 or more. Folded are healthy rules with 1 or 2 copies, and healthy rules
 * whose copies are in the same namespaces.
 */
import { kept, type Row } from './model.ts';
import { byState, STATES } from './words.ts';

export type Line =
  | { readonly type: 'head'; readonly text: string; readonly rules: number }
  | { readonly type: 'rule'; readonly row: Row; readonly isInGroup: boolean }
  | {
      readonly type: 'fold';
      readonly text: string;
      readonly isOpen: boolean;
      /** The keys of the folds that are open after a click on it. */
      readonly next: readonly string[];
      /** The number of copies in a column. */
      readonly cells: ReadonlyMap<string, number>;
    };

/** A namespace with this number of rules has a head of its own. */
const GROUP = 3;
/** This number of rules, or more, are folded. */
const FOLD = 4;
const FEW = 2;

/** @param open the keys of the folds that are open; `undefined`: nothing is folded, because the view is filtered */
export function linesOf(rows: readonly Row[], open: readonly string[] | undefined): readonly Line[] {
  const groups = [...Map.groupBy(rows.toSorted(byWeight), ({ rule }) => rule.namespace)];
  const large = groups.filter(([, group]) => group.length >= GROUP);
  const others = groups.filter(([, group]) => group.length < GROUP).flatMap(([, group]) => group);
  const lines = large.flatMap(([namespace, group]) => [head(namespace, group)].concat(linesIn(namespace, group, open)));
  const rest = linesIn('', others.toSorted(byWeight), open);
  if (lines.length > 0 && rest.length > 0) lines.push(head('other namespaces', others));
  return [...lines, ...rest];
}

const head = (text: string, rows: readonly Row[]): Line => ({ type: 'head', text, rules: rows.length });

function byWeight(a: Row, b: Row): number {
  return byState(a.state, b.state) || b.cells.size - a.cells.size || (a.title < b.title ? -1 : 1);
}

const likeness = kept(({ rule, state, targets, cells }: Row) => {
  if (state !== 'ok') return { key: rule.id };
  return { key: targets.length <= FEW ? `few ${rule.system}` : [...cells].map(String).toSorted().join(' ') };
});

/** The lines of one group. @param namespace '' for the others */
function linesIn(namespace: string, rows: readonly Row[], open: readonly string[] | undefined): Line[] {
  const single = (row: Row): Line => ({ type: 'rule', row, isInGroup: namespace !== '' });
  if (open === undefined) return rows.map((row) => single(row));
  return [...Map.groupBy(rows, (row) => likeness(row).key)].flatMap(([like, same]) => {
    if (same.length < FOLD) return same.map((row) => single(row));
    const { id, system } = same[0]?.rule ?? { id: '', system: '' };
    const isFew = like === `few ${system}`;
    const [shown, folded] = isFew ? [[], same] : [same.slice(0, 1), same.slice(1)];
    const text = `${folded.length} rules ${isFew ? `of ${system} with few copies` : 'alike'}`;
    const cells = new Map<string, number>();
    for (const row of folded) for (const column of row.cells.keys()) cells.set(column, (cells.get(column) ?? 0) + 1);
    const key = `${namespace} ${isFew ? like : id}`;
    const isOpen = open.includes(key);
    const next = isOpen ? open.filter((one) => one !== key) : [...open, key];
    const line: Line = { type: 'fold', text, isOpen, next, cells };
    return shown.map((row) => single(row)).concat(line, isOpen ? folded.map((row) => single(row)) : []);
  });
}

/** Columns with the same states stand together: it shows what several namespaces have in common. */
export function alikeColumns(columns: readonly string[], rows: readonly Row[]): readonly string[] {
  const letter = (row: Row, name: string): string => String(STATES.indexOf(row.cells.get(name) ?? 'unknown'));
  const keyed = columns.map((name) => [rows.map((row) => letter(row, name)).join(''), name] as const);
  return keyed.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, name]) => name);
}
