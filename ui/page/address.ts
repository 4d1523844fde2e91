/**
 * The view that an address names, as `#map/q=billing&state=bad`, `#o/Secret/default/app`. Each part is encoded: an
 * address is split first and decoded then, and any text is an address. Also the titles of places, and their keys. Pure.
 */
import type { Place } from '../data.ts';
import { type State, STATES } from './words.ts';

const VIEWS = ['map', 'problems', 'table', 'plan', 'ns', 'o'] as const;

/** Lines of a table at first. */
const LINES = 250;

export interface Route {
  readonly view: (typeof VIEWS)[number];
  readonly q: string;
  readonly state: State | '';
  readonly sys: string;
  readonly order: 'name' | 'alike';
  /** The keys of the folds of the map that are open. */
  readonly open: readonly string[];
  /** How many lines the table has, at most. */
  readonly lines: number;
  /** The object of the view `o`, or the namespace of the view `ns`. */
  readonly place: Place;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function routeOf(hash: string): Route {
  const [first = '', ...parts] = hash.replace(/^#/, '').split('/');
  const view = VIEWS.find((one) => one === first) ?? 'map';
  // A namespace has one part alone.
  const [kind = '', namespace = kind, name = '', cluster = ''] = parts.map((part) => decoded(part));
  const query = new URLSearchParams(view === 'map' || view === 'table' ? parts[0] : '');
  const text = (key: string): string => query.get(key) ?? '';
  return {
    view,
    q: text('q'),
    state: STATES.find((state) => state === text('state')) ?? '',
    sys: text('sys'),
    order: text('order') === 'alike' ? 'alike' : 'name',
    open: text('open').split(',').filter(Boolean),
    lines: Math.trunc(Number(text('lines'))) || LINES,
    place: { kind, namespace, name, cluster },
  };
}

export function listAddress(view: 'map' | 'table', query: Partial<Route>): string {
  const { q = '', state = '', sys = '', order = 'name', open = [], lines = LINES } = query;
  const rest = { order: order === 'name' ? '' : order, open: open.join(','), lines: lines === LINES ? '' : `${lines}` };
  const pairs = Object.entries({ q, state, sys, ...rest }).filter(([, value]) => value !== '');
  const text = new URLSearchParams(pairs).toString();
  return text === '' ? `#${view}` : `#${view}/${text}`;
}

/** Half a pair of UTF-16 has no code, so it is replaced. */
const addressOf = (...parts: readonly string[]): string =>
  `#${parts.map((part) => encodeURIComponent(part.toWellFormed())).join('/')}`;

export function objectAddress({ kind, namespace, name, cluster = '' }: Place): string {
  return addressOf('o', kind, namespace, name, ...(cluster === '' ? [] : [cluster]));
}

export const namespaceAddress = (name: string): string => addressOf('ns', name);

export function titleOf({ kind, namespace, name, cluster = '' }: Place): string {
  if (kind === 'Vault') return `Vault ${cluster}/${name}`;
  return `${kind} ${namespace && `${namespace}/`}${name}${cluster && ` in ${cluster}`}`;
}

/** A key for Maps. */
export function placeKey({ kind, namespace, name, cluster = '' }: Place): string {
  return `${cluster}/${kind}/${namespace}/${name}`;
}
