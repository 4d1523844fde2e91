/**
 * What the views show, made from the data. A cluster's copies are a matrix (rules and namespaces) and a forest (source,
 * rule, copies). The row of a rule is made again only if the rule has changed. Pure.
 *
 * Texts of users are keys of Maps alone, never names of fields.
 */
import type { PageData, PageRule, Place } from '../data.ts';
import type { Filter } from './address.ts';
import { type State, STATES, worst } from './states.ts';

export interface Target {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly state: State;
  readonly reason: string;
  readonly message: string;
}

/** A rule with its targets. */
export interface Row {
  readonly rule: PageRule;
  /** `SecretMirror pki/ca-bundle` */
  readonly title: string;
  readonly state: State;
  readonly targets: readonly Target[];
  /** The worst state of its targets in a namespace. */
  readonly cells: ReadonlyMap<string, State>;
  readonly counts: ReadonlyMap<State, number>;
}

export interface Model {
  readonly data: PageData;
  readonly rows: readonly Row[];
  /** The namespaces that have a target, by name. */
  readonly columns: readonly string[];
  readonly counts: ReadonlyMap<State, number>;
}

const TARGET_STATES: ReadonlyMap<string, State> = new Map([
  ['pending', 'pending'],
  ['waiting', 'waiting'],
  ['conflict', 'bad'],
  ['error', 'bad'],
]);
/** States of rules that pass without help of a user. */
const PASSING: ReadonlySet<string> = new Set(['Pending', 'Waiting', 'Outdated', 'Unknown', 'Deleting']);

/** The function with its results kept: data are never changed, and a key typed must not make everything anew. */
export function kept<Of extends object, Result>(make: (of: Of) => Result): (of: Of) => Result {
  const results = new WeakMap<Of, { readonly result: Result }>();
  return (of) => {
    const found = results.get(of) ?? { result: make(of) };
    results.set(of, found);
    return found.result;
  };
}

export const modelOf = kept((data: PageData): Model => {
  const made = data.rules.map((rule) => rowOf(rule));
  const columns = new Set<string>();
  for (const { cells } of made) for (const namespace of cells.keys()) columns.add(namespace);
  return { data, rows: made, columns: [...columns].toSorted(), counts: sum(made.map(({ counts }) => counts)) };
});

export function sum(all: Iterable<ReadonlyMap<State, number>>): ReadonlyMap<State, number> {
  const total = new Map<State, number>();
  for (const counts of all) for (const [state, number] of counts) total.set(state, (total.get(state) ?? 0) + number);
  return total;
}

const rowOf = kept((rule: PageRule): Row => {
  const failing = rule.failing.map(({ kind, namespace, name, state, reason, message }): Target => ({
    kind,
    namespace,
    name,
    state: TARGET_STATES.get(state) ?? 'bad',
    reason,
    message,
  }));
  const isFailing = new Set(failing.map((one) => placeKey(one)));
  const fine = rule.copies
    .filter((copy) => !isFailing.has(placeKey(copy)))
    .map(({ kind, namespace, name }): Target => ({ kind, namespace, name, state: 'ok', reason: '', message: '' }));
  const kind = fine[0]?.kind ?? failing[0]?.kind ?? rule.from?.kind ?? 'Secret';
  const name = fine[0]?.name ?? failing[0]?.name ?? rule.from?.name ?? '';
  const refused = rule.refused.map(({ namespace, reason, message }): Target => ({
    kind,
    namespace,
    name,
    state: 'refused',
    reason,
    message,
  }));
  const targets = [...failing, ...fine, ...refused];
  const cells = new Map<string, State>();
  const counts = new Map<State, number>();
  for (const { namespace, state } of targets) {
    cells.set(namespace, worst([cells.get(namespace) ?? 'ok', state]));
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return { rule, title: titleOf(rule), state: stateOf(rule, failing), targets, cells, counts };
});

function stateOf({ ready, reason, state }: PageRule, failing: readonly Target[]): State {
  if (ready) return 'ok';
  if (reason === 'Limited') return 'unknown';
  if (failing.length > 0) return worst(failing.map((one) => one.state));
  return PASSING.has(state) ? 'waiting' : 'bad';
}

export function titleOf({ kind, namespace, name }: Omit<Place, 'cluster'>): string {
  return `${kind} ${namespace}/${name}`;
}

/** A key for Maps: names have no slashes. */
export function placeKey({
  kind,
  namespace,
  name,
  cluster = '',
}: Omit<Place, 'cluster'> & { cluster?: string }): string {
  return `${cluster}/${kind}/${namespace}/${name}`;
}

function grouped<T>(items: Iterable<readonly [string, T]>): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const [key, item] of items) {
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/** Who is what to an object: made at the first question, because only some views ask. */
export interface Links {
  /** The rules that are this object. */
  readonly rules: ReadonlyMap<string, readonly Row[]>;
  /** The rules that copy this object. */
  readonly users: ReadonlyMap<string, readonly Row[]>;
  /** The rules that make this object, with the target. */
  readonly makers: ReadonlyMap<string, readonly (readonly [Row, Target])[]>;
}

export const linksOf = kept(({ rows }: Model): Links => ({
  rules: grouped(rows.map((row) => [placeKey(row.rule), row])),
  users: grouped(rows.flatMap((row) => (row.rule.from === null ? [] : [[placeKey(row.rule.from), row] as const]))),
  makers: grouped(
    rows.flatMap((row) => row.targets.map((target) => [placeKey(target), [row, target] as const] as const)),
  ),
}));

/** Targets with one state and one reason. */
export interface Group {
  readonly state: State;
  readonly reason: string;
  readonly targets: readonly Target[];
}

/** The targets by state and reason, worst first. */
export function groupsOf(targets: readonly Target[]): readonly Group[] {
  const found = grouped(targets.map((target) => [`${target.state} ${target.reason}`, target] as const));
  return [...found.values()]
    .flatMap((all) => (all[0] === undefined ? [] : [{ state: all[0].state, reason: all[0].reason, targets: all }]))
    .toSorted((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state) || b.targets.length - a.targets.length);
}

/** The part of the matrix that a filter leaves. A filter is a zoom: it keeps the matching rows and columns. */
export interface Part {
  readonly rows: readonly Row[];
  readonly columns: readonly string[];
}

export function partOf({ rows, columns }: Pick<Model, 'rows' | 'columns'>, { q, state, sys }: Filter): Part {
  const words = q
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  const has = (text: string): boolean => words.every((word) => text.toLowerCase().includes(word));
  const fits = ({ rule, state: own, counts }: Row): boolean =>
    (sys === '' || rule.system === sys) && (state === '' || own === state || counts.has(state));
  const fitting = rows.filter((row) => fits(row));
  const hits = new Set(words.length === 0 ? [] : columns.filter((name) => has(name)));
  const named = new Set(fitting.filter(({ title, rule }) => has(`${title} ${rule.source} ${rule.reason}`)));
  const inHits = ({ cells }: Row): boolean => [...cells.keys()].some((name) => hits.has(name));
  const shown = words.length === 0 ? fitting : fitting.filter((row) => named.has(row) || inHits(row));
  if (q === '' && state === '' && sys === '') return { rows: shown, columns };
  const used = new Set<string>();
  for (const { cells } of shown)
    for (const [name, own] of cells)
      if ((state === '' || own === state) && (hits.size === 0 || hits.has(name))) used.add(name);
  return { rows: shown, columns: columns.filter((name) => used.has(name)) };
}
