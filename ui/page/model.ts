/**
 * What the views show, made from the data. A cluster's copies are a matrix (rules and namespaces) and a forest (source,
 * rule, copies). The row of a rule is made again only if the rule has changed. Pure.
 *
 * Texts of users are keys of Maps alone, never names of fields.
 */
import type { Advice, PageData, PageRule, Place } from '../data.ts';
import { placeKey, type Route, titleOf } from './address.ts';
import { byState, type State, worse } from './words.ts';

export interface Target extends Place {
  readonly state: State;
  readonly reason: string;
  readonly message: string;
}

/** What the map draws: a rule and its targets. */
export interface Row {
  readonly rule: Place & Pick<PageRule, 'id' | 'system'>;
  /** `SecretMirror pki/ca-bundle` */
  readonly title: string;
  /** Where its content comes from, if it is no object of this cluster. */
  readonly remark: string;
  readonly state: State;
  readonly targets: readonly Target[];
  /** The worst state of its targets in a column. */
  readonly cells: ReadonlyMap<string, State>;
  readonly counts: ReadonlyMap<State, number>;
}

export interface RuleRow extends Row {
  readonly rule: PageRule;
  readonly source: string;
  /** What a search looks at. */
  readonly text: string;
}

export interface Model {
  readonly data: PageData;
  readonly rows: readonly RuleRow[];
  /** The namespaces that have a target, Vault servers and other clusters, by name. */
  readonly columns: readonly string[];
  readonly counts: ReadonlyMap<State, number>;
  /** By reason. If there is none, the message stands alone. */
  readonly advice: ReadonlyMap<string, Advice>;
}

const TARGET_STATES = { pending: 'pending', waiting: 'waiting', conflict: 'bad', error: 'bad' } as const;
/** States of rules that pass without help of a user. */
const PASSING: ReadonlySet<string> = new Set(['Pending', 'Waiting', 'Outdated', 'Unknown', 'Deleting']);

/** The function with its results kept: data are never changed, and a key typed must not make everything anew. */
export function kept<Of extends object, Result extends object>(make: (of: Of) => Result): (of: Of) => Result {
  const results = new WeakMap<Of, Result>();
  return (of) => {
    const found = results.get(of) ?? make(of);
    results.set(of, found);
    return found;
  };
}

export const modelOf = kept((data: PageData): Model => {
  const rows = data.rules.map((rule) => rowOf(rule));
  const counts = new Map<State, number>();
  for (const row of rows) for (const [state, one] of row.counts) counts.set(state, (counts.get(state) ?? 0) + one);
  return { data, rows, columns: columnsOf(rows), counts, advice: new Map(Object.entries(data.advice)) };
});

export function columnsOf(rows: readonly Row[]): readonly string[] {
  return [...new Set(rows.flatMap(({ cells }) => [...cells.keys()]))].toSorted();
}

const rowOf = kept((rule: PageRule): RuleRow => {
  const { from, ready, reason, message } = rule;
  const failing = rule.failing.map((one): Target => ({ ...one, state: TARGET_STATES[one.state] }));
  const isFailing = new Set(failing.map((one) => placeKey(one)));
  const fine = rule.copies.filter((one) => !isFailing.has(placeKey(one)));
  const state = stateOf(rule, failing);
  const targets = [
    ...failing,
    ...Array.from(fine, (one): Target => ({ ...one, state: 'ok', reason: '', message: '' })),
    ...rule.elsewhere.map((one): Target => ({ ...one, state: ready ? 'ok' : state, reason, message })),
    ...rule.refused.map((one): Target => ({ ...one, state: 'refused' })),
  ];
  const title = titleOf(rule);
  const source = from === null ? rule.source : titleOf(from);
  const origin = from?.cluster ? `from ${from.kind === 'Vault' ? 'Vault' : from.cluster}` : '';
  const remark = rule.system === 'generator' ? 'generated' : origin;
  const text = `${title} ${source} ${reason}`.toLowerCase();
  return { rule, title, source, text, remark, state, targets, ...cellsOf(targets) };
});

export function cellsOf(targets: readonly Target[]): Pick<Row, 'cells' | 'counts'> {
  const [cells, counts] = [new Map<string, State>(), new Map<State, number>()];
  for (const target of targets) {
    const [{ state }, column] = [target, columnOf(target)];
    cells.set(column, worse(cells.get(column) ?? 'ok', state));
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return { cells, counts };
}

function stateOf({ ready, reason, state, warnings }: PageRule, failing: readonly Target[]): State {
  if (ready) return warnings.length > 0 ? 'waiting' : 'ok';
  if (reason === 'Limited') return 'unknown';
  if (failing.length > 0) return failing.reduce<State>((all, one) => worse(all, one.state), 'ok');
  return PASSING.has(state) ? 'waiting' : 'bad';
}

/** The column of the map that a target is in. */
export function columnOf({ cluster = '', kind, namespace }: Place): string {
  if (kind === 'Vault') return `Vault ${cluster}`;
  return [namespace, cluster].filter((part) => part !== '').join(' in ');
}

/** A rule with the target that it makes. */
export type Made = readonly [RuleRow, Target];

/** Who is what to an object: made at the first question, because only some views ask. */
export interface Links {
  /** The rules that are this object. */
  readonly rules: ReadonlyMap<string, readonly RuleRow[]>;
  /** The rules that copy this object. */
  readonly users: ReadonlyMap<string, readonly RuleRow[]>;
  /** The rules that make this object. */
  readonly makers: ReadonlyMap<string, readonly Made[]>;
}

export const linksOf = kept(({ rows }: Model): Links => {
  const pairs = rows.flatMap((row) => row.targets.map((target): Made => [row, target]));
  return {
    rules: Map.groupBy(rows, ({ rule }) => placeKey(rule)),
    users: Map.groupBy(rows, ({ rule: { from } }) => (from === null ? '' : placeKey(from))),
    makers: Map.groupBy(pairs, ([, target]) => placeKey(target)),
  };
});

/** Targets with one state and one reason. The message is that of the first. */
export interface Group extends Pick<Target, 'state' | 'reason' | 'message'> {
  readonly targets: readonly Target[];
}

/** The targets by state and reason, worst first. */
export function groupsOf(targets: readonly Target[]): readonly Group[] {
  const found = Map.groupBy(targets, ({ state, reason }) => `${state} ${reason}`);
  const groups = Array.from(found.values(), (all) => ({ ...(all[0] as Target), targets: all }));
  return groups.toSorted((a, b) => byState(a.state, b.state) || b.targets.length - a.targets.length);
}

export type Part = Pick<Model, 'rows' | 'columns'>;

/** The part of the matrix that a filter leaves. A filter is a zoom: it keeps the matching rows and columns. */
export function partOf({ rows, columns }: Part, { q, state, sys }: Pick<Route, 'q' | 'state' | 'sys'>): Part {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0 && state === '' && sys === '') return { rows, columns };
  const has = (text: string): boolean => words.every((word) => text.includes(word));
  const hits = words.length === 0 ? [] : columns.filter((name) => has(name.toLowerCase()));
  const shown = rows.filter(
    (row) =>
      (sys === '' || row.rule.system === sys) &&
      (state === '' || row.state === state || row.counts.has(state)) &&
      (has(row.text) || hits.some((name) => row.cells.has(name))),
  );
  const isUsed = (name: string): boolean =>
    shown.some(({ cells }) => (state === '' ? cells.has(name) : cells.get(name) === state));
  return { rows: shown, columns: (hits.length === 0 ? columns : hits).filter((name) => isUsed(name)) };
}

/** Who may copy into a namespace, in a sentence. */
export function whoMay({ namespaces, requiresConsent }: PageData, name: string): string {
  if (namespaces === null)
    return 'Not permitted: the namespaces could not be read, so it is not known who may copy into this one.';
  const found = namespaces.find((one) => one.name === name);
  if (found === undefined) return 'This namespace does not exist, or is being deleted.';
  const { closed, acceptFrom } = found;
  if (closed !== undefined) return `Nobody may copy into this namespace: ${closed}.`;
  if (acceptFrom === undefined && requiresConsent)
    return 'Only its own rules may copy into this namespace: it has no consent, and --require-consent is on.';
  if (acceptFrom === undefined)
    return 'Rules of every namespace may copy into this one: it has no consent, and no limit keeps them out.';
  if (acceptFrom === '') return 'Only its own rules may copy into this namespace: its consent is empty.';
  return `Rules of these namespaces may copy into this one, by its annotation keyferry.dev/accept-from: ${acceptFrom}`;
}
