/**
 * The view that an address names, as `#map/q=billing&state=bad`, `#o/Secret/default/app`. Each part is encoded: an
 * address is split first and decoded then, and any text is an address. Pure.
 */
import type { Place } from '../data.ts';
import { type State, STATES } from './states.ts';

export interface Filter {
  readonly q: string;
  readonly state: State | '';
  readonly sys: string;
}

export interface ListRoute extends Filter {
  readonly view: 'map' | 'table';
  readonly order: 'name' | 'alike';
  /** The keys of the folds that are open. */
  readonly open: readonly string[];
  /** The first line of the table; -1: all lines. */
  readonly from: number;
}

export type Route =
  | ListRoute
  | (Place & { readonly view: 'o' })
  | { readonly view: 'problems' }
  | { readonly view: 'plan' }
  | { readonly view: 'ns'; readonly name: string };

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Half a pair of UTF-16 has no code, so it is replaced. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

export function routeOf(hash: string): Route {
  const [view = '', ...parts] = hash.replace(/^#/, '').split('/');
  const [kind = '', namespace = '', name = '', cluster = ''] = parts.map((part) => decoded(part));
  if (view === 'problems' || view === 'plan') return { view };
  if (view === 'ns') return { view, name: kind };
  if (view === 'o') return { view, kind, namespace, name, cluster };
  const query = new URLSearchParams(parts[0] ?? '');
  const text = (key: string): string => query.get(key) ?? '';
  return {
    view: view === 'table' ? view : 'map',
    q: text('q'),
    state: STATES.find((state) => state === text('state')) ?? '',
    sys: text('sys'),
    order: text('order') === 'alike' ? 'alike' : 'name',
    open: text('open').split(',').filter(Boolean),
    from: Math.trunc(Number(text('from'))) || 0,
  };
}

export function listAddress(view: 'map' | 'table', query: Partial<ListRoute>): string {
  const { q = '', state = '', sys = '', order = 'name', open = [], from = 0 } = query;
  const rest = { order: order === 'name' ? '' : order, open: open.join(','), from: from === 0 ? '' : String(from) };
  const pairs = Object.entries({ q, state, sys, ...rest }).filter(([, value]) => value !== '');
  const text = new URLSearchParams(pairs).toString();
  return text === '' ? `#${view}` : `#${view}/${text}`;
}

export function objectAddress({
  kind,
  namespace,
  name,
  cluster = '',
}: Omit<Place, 'cluster'> & Partial<Place>): string {
  const parts = [kind, namespace, name, ...(cluster === '' ? [] : [cluster])];
  return `#o/${parts.map((part) => encoded(part)).join('/')}`;
}

export function namespaceAddress(name: string): string {
  return `#ns/${encoded(name)}`;
}
