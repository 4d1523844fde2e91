/** One line of counts, the three worst problems, and the map. A filter hides the problems, so that the map has the room. */
import { listAddress, type ListRoute } from '../address.ts';
import type { App } from '../app.ts';
import { bdi, h, link } from '../dom.ts';
import type { MapView } from '../map.ts';
import { type Part, partOf } from '../model.ts';
import { problemsOf } from '../problems.ts';
import { LOOK, type State } from '../states.ts';
import { count } from '../text.ts';
import { problemItem } from './problems.ts';

const SHOWN = 3;

export function overview(app: App, route: ListRoute, map: MapView): HTMLElement[] {
  const { model } = app;
  const { data } = model;
  if (data.rules.length === 0 && data.orphans.length === 0) return [empty(app)];
  const isFiltered = route.q !== '' || route.state !== '' || route.sys !== '';
  const part = partOf(model, route);
  const problems = problemsOf(model);
  const { order } = route;
  map.set({
    ...part,
    order,
    open: isFiltered ? undefined : route.open,
    otherOrder: listAddress('map', { ...route, order: order === 'name' ? 'alike' : 'name' }),
    foldAddress: (key) => {
      const others = route.open.filter((one) => one !== key);
      return listAddress('map', { ...route, open: others.length < route.open.length ? others : [...others, key] });
    },
  });
  return [
    h('h1.hidden', 'Overview'),
    counts(app, route),
    ...(isFiltered ? [filterLine(app, route, part)] : [notes(data.notes), worst(app, problems)]),
    map.element,
    legend(),
  ];
}

/** The counts, each of which is a filter. A count of 0 is not shown. */
function counts({ model }: App, route: ListRoute): HTMLElement {
  const order: readonly State[] = ['ok', 'pending', 'waiting', 'bad', 'refused'];
  const { data } = model;
  const items = order.flatMap((state) => {
    const number = model.counts.get(state) ?? 0;
    const isChosen = route.state === state;
    const address = listAddress('map', { ...route, open: [], state: isChosen ? '' : state });
    const text = state === 'ok' ? 'copies up to date' : LOOK[state].word;
    const glyph = h(`span.glyph.${state}`, { 'aria-hidden': 'true' }, LOOK[state].glyph);
    return number === 0
      ? []
      : [
          h(
            'a',
            { href: address, 'aria-current': isChosen && 'true' },
            glyph,
            ' ',
            h('strong', number.toLocaleString('en')),
            ` ${text}`,
          ),
        ];
  });
  const orphans = data.orphans.length;
  const systems = [...new Set(data.rules.map(({ system }) => system))];
  return h(
    'p.counts',
    ...items,
    orphans > 0 &&
      h(
        'a',
        { href: '#problems' },
        h('span.glyph.orphan', { 'aria-hidden': 'true' }, '◇'),
        ' ',
        h('strong', orphans.toLocaleString('en')),
        ' without a rule',
      ),
    h(
      'span.end',
      ...(systems.length < 2
        ? []
        : systems.map((sys) =>
            h(
              'a',
              {
                href: listAddress('map', { ...route, open: [], sys: route.sys === sys ? '' : sys }),
                'aria-current': route.sys === sys && 'true',
              },
              sys,
            ),
          )),
      `${count(data.rules.length, 'rule')} · ${data.namespaces === null ? 'namespaces not known' : count(data.namespaces.length, 'namespace')}`,
    ),
  );
}

/** What a filter hides. */
export function filterLine({ model }: App, route: ListRoute, part: Part): HTMLElement {
  const { rows, columns } = part;
  const words = [
    route.q === '' ? '' : `“${route.q}”`,
    route.state === '' ? '' : LOOK[route.state].word,
    route.sys,
  ].filter((word) => word !== '');
  const shown = `${rows.length.toLocaleString('en')} of ${count(model.rows.length, 'rule')} and ${columns.length.toLocaleString('en')} of ${count(model.columns.length, 'namespace')}`;
  const text = rows.length === 0 ? 'Nothing matches ' : `Shows ${shown}: `;
  return h('p.filter', { role: 'status' }, text, bdi(words.join(', ')), '. ', link(`#${route.view}`, 'Show all'));
}

function worst(app: App, problems: ReturnType<typeof problemsOf>): HTMLElement {
  if (problems.length === 0) return h('p.filter', 'Every copy is up to date.');
  const items = problems.slice(0, SHOWN).map((problem) => problemItem(app, problem));
  const more = problems.length > SHOWN && link('#problems', `All ${count(problems.length, 'problem')}`);
  return h('section', { 'aria-label': 'The worst problems' }, h('ul.problems', ...items), more && h('p.filter', more));
}

function notes(texts: readonly string[]): HTMLElement {
  return h('div.notes', ...texts.map((text) => h('p', bdi(text))));
}

function legend(): HTMLElement {
  const states: readonly State[] = ['ok', 'pending', 'waiting', 'bad', 'refused'];
  const items = states.map((state) => h('span', h(`i.mark.${state}`, { 'aria-hidden': 'true' }), LOOK[state].word));
  return h(
    'p.legend',
    ...items,
    h('span', 'blank: no copy'),
    h('span.end', '/ search · arrows move · Enter opens · ', link('#table', 'as a table')),
  );
}

function empty({ model: { data } }: App): HTMLElement {
  return h(
    'div.text',
    h('h1', 'Nothing is copied in this cluster'),
    notes(data.notes),
    h('p', `Keyferry looked for rules. Rules are: ${data.ruleNames}.`),
    h('p', 'To begin, annotate a Secret with the namespaces that get a copy:'),
    h('pre', "kubectl annotate secret NAME k8s-replicator/replicate-to-namespaces='team-.+'"),
  );
}
