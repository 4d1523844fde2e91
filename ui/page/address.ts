/**
 * The view that an address names, as `#map/q=billing&state=bad`, `#o/Secret/default/app`. Each part is encoded: an
 * address is split first and decoded then, and any text is an address. Pure.
 */
import type { Place } from '../data.ts';
import { isState, type State } from './states.ts';

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
}

export interface ObjectRoute extends Place {
  readonly view: 'object';
}

export type Route =
  | ListRoute
  | ObjectRoute
  | { readonly view: 'problems' }
  | { readonly view: 'plan' }
  | { readonly view: 'ns'; readonly name: string };

export const NO_FILTER: Filter = { q: '', state: '', sys: '' };
const HOME = { ...NO_FILTER, order: 'name', open: [] } as const;

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
  const [first = '', second = '', third = '', fourth = ''] = parts.map((part) => decoded(part));
  if (view === 'problems' || view === 'plan') return { view };
  if (view === 'ns') return { view, name: first };
  if (view === 'o') return { view: 'object', kind: first, namespace: second, name: third, cluster: fourth };
  const query = new Map(
    (parts[0] ?? '').split('&').map((pair) => {
      const at = pair.indexOf('=');
      return [pair.slice(0, Math.max(at, 0)), decoded(pair.slice(at + 1))] as const;
    }),
  );
  const state = query.get('state') ?? '';
  return {
    view: view === 'table' ? 'table' : 'map',
    q: query.get('q') ?? '',
    state: isState(state) ? state : '',
    sys: query.get('sys') ?? '',
    order: query.get('order') === 'alike' ? 'alike' : 'name',
    open: (query.get('open') ?? '').split(',').filter((key) => key !== ''),
  };
}

export function listAddress(view: 'map' | 'table', query: Partial<ListRoute>): string {
  const { q, state, sys, order, open } = { ...HOME, ...query };
  const pairs = [
    ['q', q],
    ['state', state],
    ['sys', sys],
    ['order', order === 'name' ? '' : order],
    ['open', open.join(',')],
  ];
  const texts = pairs.filter(([, value]) => value !== '').map(([key, value]) => `${key}=${encoded(value ?? '')}`);
  return texts.length === 0 ? `#${view}` : `#${view}/${texts.join('&')}`;
}

export function objectAddress(place: Omit<Place, 'cluster'> & { readonly cluster?: string }): string {
  const { kind, namespace, name, cluster = '' } = place;
  const parts = [kind, namespace, name, ...(cluster === '' ? [] : [cluster])];
  return `#o/${parts.map((part) => encoded(part)).join('/')}`;
}

export function namespaceAddress(name: string): string {
  return `#ns/${encoded(name)}`;
}
