/**
 * The lines of the map: a head for the rules of a namespace, a rule, or several rules in one line (a fold). Pure.
 *
 * Rules are grouped by namespace if it has 3 or more. Folded are healthy rules with 1 or 2 copies, and healthy rules
 * whose copies are in the same namespaces.
 */
import { kept, type Row } from './model.ts';
import { byState, type State } from './states.ts';

export type Line =
  | { readonly type: 'head'; readonly text: string; readonly rules: number }
  | { readonly type: 'rule'; readonly row: Row; readonly isInGroup: boolean }
  | {
      readonly type: 'fold';
      readonly key: string;
      readonly text: string;
      readonly isOpen: boolean;
      readonly rows: readonly Row[];
      /** The number of copies in a namespace. */
      readonly cells: ReadonlyMap<string, number>;
    };

/** A namespace with this number of rules has a head of its own. */
const GROUP = 3;
/** This number of rules, or more, are folded. */
const FOLD = 4;
const FEW = 2;

/** @param open the keys of the folds that are open; `undefined`: nothing is folded, because the view is filtered */
export function linesOf(rows: readonly Row[], open: readonly string[] | undefined): readonly Line[] {
  const sorted = rows.toSorted(byWeight);
  const small =
    open === undefined
      ? []
      : sorted.filter((row) => row.state === 'ok' && row.targets.length <= FEW && row.rule.warnings.length === 0);
  const bySystem = [...Map.groupBy(small, ({ rule }) => rule.system)].filter(([, all]) => all.length >= FOLD);
  const folded = new Set(bySystem.flatMap(([, all]) => all));
  const groups = Map.groupBy(
    sorted.filter((row) => !folded.has(row)),
    ({ rule }) => rule.namespace,
  );
  const isLarge = (group: readonly Row[]): boolean => group.length >= GROUP;
  const others = [...groups.values()]
    .filter((group) => !isLarge(group))
    .flat()
    .toSorted(byWeight);
  const lines: Line[] = [];
  for (const [namespace, group] of groups) {
    if (!isLarge(group)) continue;
    lines.push({ type: 'head', text: namespace, rules: group.length }, ...alike(namespace, group, open, true));
  }
  if (others.length > 0 && lines.length > 0)
    lines.push({ type: 'head', text: 'other namespaces', rules: others.length });
  lines.push(...alike('', others, open, false));
  for (const [system, all] of bySystem)
    lines.push(...fold(`few ${system}`, `${all.length} rules of ${system} with few copies`, all, open, false));
  return lines;
}

function byWeight(a: Row, b: Row): number {
  return byState(a.state, b.state) || b.cells.size - a.cells.size || (a.title < b.title ? -1 : 1);
}

const marksOf = kept(({ cells }: Row) => [...cells].map(String).toSorted().join(' '));

/** Folds healthy rules with the same marks. */
function alike(place: string, rows: readonly Row[], open: readonly string[] | undefined, isInGroup: boolean): Line[] {
  const single = (row: Row): Line => ({ type: 'rule', row, isInGroup });
  if (open === undefined) return rows.map((row) => single(row));
  const marks = Map.groupBy(rows, (row) => (row.state === 'ok' ? marksOf(row) : row.rule.id));
  return [...marks.values()].flatMap((same) => {
    const [first, ...rest] = same as [Row, ...Row[]];
    if (same.length < FOLD) return same.map((row) => single(row));
    const like = `like ${place} ${first.rule.id}`;
    return [single(first)].concat(fold(like, `${rest.length} rules alike`, rest, open, isInGroup));
  });
}

function fold(
  key: string,
  text: string,
  rows: readonly Row[],
  open: readonly string[] | undefined,
  isInGroup: boolean,
): Line[] {
  const cells = new Map<string, number>();
  for (const row of rows) for (const name of row.cells.keys()) cells.set(name, (cells.get(name) ?? 0) + 1);
  const id = hash(key);
  const isOpen = open?.includes(id) === true;
  const line: Line = { type: 'fold', key: id, text, isOpen, rows, cells };
  return isOpen ? [line, ...rows.map((row): Line => ({ type: 'rule', row, isInGroup }))] : [line];
}

/** A short text for the address. */
function hash(text: string): string {
  let value = 5381;
  for (let at = 0; at < text.length; at += 1) value = (Math.imul(value, 33) ^ text.charCodeAt(at)) >>> 0;
  return value.toString(36);
}

/** Columns with the same states stand together: it shows what several namespaces have in common. */
export function alikeColumns(columns: readonly string[], rows: readonly Row[]): readonly string[] {
  const letters: Readonly<Record<State, string>> = {
    bad: 'a',
    waiting: 'b',
    pending: 'c',
    refused: 'd',
    unknown: 'e',
    ok: 'f',
  };
  const keyed = columns.map((name) => {
    const key = rows.map(({ cells }) => letters[cells.get(name) ?? 'unknown']).join('');
    return [key, name] as const;
  });
  return keyed.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, name]) => name);
}
