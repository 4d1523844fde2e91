/** One line of counts, the three worst problems, and the map. A filter hides the problems, so that the map has the room. */
import { listAddress, type ListRoute } from '../address.ts';
import type { App } from '../app.ts';
import { bdi, type Child, el, legend, link } from '../dom.ts';
import { type Part, partOf } from '../model.ts';
import { problemsOf } from '../problems.ts';
import { LOOK, type State } from '../states.ts';
import { count, number } from '../text.ts';
import { problemList } from './problems.ts';

const SHOWN = 3;
const ORDER: readonly State[] = ['ok', 'pending', 'waiting', 'bad', 'refused'];

export function overview(app: App, route: ListRoute): Child[] {
  const { model, map } = app;
  const { data } = model;
  if (data.rules.length === 0 && data.orphans.length === 0) return empty(app);
  const part = partOf(model, route);
  const hidden = filterLine(app, route, part);
  const { order, open } = route;
  map.set({
    ...part,
    order,
    open: hidden === false ? open : undefined,
    otherOrder: listAddress('map', { ...route, order: order === 'name' ? 'alike' : 'name' }),
    foldAddress: (key) => {
      const isOpen = open.includes(key);
      return listAddress('map', { ...route, open: isOpen ? open.filter((one) => one !== key) : [...open, key] });
    },
  });
  return [
    el`<h1 class="hidden">Overview</h1>`,
    counts(app, route),
    hidden === false ? [notes(data.notes), worst(app)] : hidden,
    map.element,
    legend(
      ORDER.map((state) => [state, LOOK[state].word]),
      el`<span class="end">blank: no copy · / search · arrows move · Enter opens · ${link('#table', 'as a table')}</span>`,
    ),
  ];
}

/** The counts, each of which is a filter. A count of 0 is not shown. */
function counts({ model: { data, counts } }: App, route: ListRoute): HTMLElement {
  const one = (href: string, isChosen: boolean, look: string, glyph: string, value: number, word: string): Child =>
    value > 0 &&
    el`<a href=${href} aria-current=${isChosen && 'true'}><span class="glyph ${look}" aria-hidden="true">${glyph}</span>
      <span> </span><strong>${number(value)}</strong><span> ${word}</span></a>`;
  const states = ORDER.map((state) => {
    const isChosen = route.state === state;
    const href = listAddress('map', { ...route, open: [], state: isChosen ? '' : state });
    const { glyph, word } = LOOK[state];
    return one(href, isChosen, state, glyph, counts.get(state) ?? 0, state === 'ok' ? 'copies up to date' : word);
  });
  const systems = [...new Set(data.rules.map(({ system }) => system))].map((sys) => {
    const isChosen = route.sys === sys;
    const href = listAddress('map', { ...route, open: [], sys: isChosen ? '' : sys });
    return el`<a href=${href} aria-current=${isChosen && 'true'}>${sys}</a>`;
  });
  const namespaces = data.namespaces === null ? 'namespaces not known' : count(data.namespaces.length, 'namespace');
  return el`<p class="counts">${states}${one('#problems', false, 'orphan', '◇', data.orphans.length, 'without a rule')}
    <span class="end">${systems.length > 1 && systems}<span>${count(data.rules.length, 'rule')} · ${namespaces}</span></span></p>`;
}

/** What a filter hides; `false`: there is no filter. */
export function filterLine({ model }: App, { view, q, state, sys }: ListRoute, { rows, columns }: Part): Child {
  const words = [q && `“${q}”`, state && LOOK[state].word, sys].filter(Boolean).join(', ');
  if (words === '') return false;
  const rules = `${number(rows.length)} of ${count(model.rows.length, 'rule')}`;
  const shown = `Shows ${rules} and ${number(columns.length)} of ${count(model.columns.length, 'namespace')}: `;
  const text = rows.length === 0 ? 'Nothing matches ' : shown;
  return el`<p class="filter" role="status">${text}${bdi(words)}. ${link(`#${view}`, 'Show all')}</p>`;
}

function worst(app: App): HTMLElement {
  const problems = problemsOf(app.model);
  if (problems.length === 0) return el`<p class="filter">Every copy is up to date.</p>`;
  const more =
    problems.length > SHOWN && el`<p class="filter">${link('#problems', `All ${problems.length} problems`)}</p>`;
  const list = problemList(app, problems.slice(0, SHOWN));
  return el`<section aria-label="The worst problems">${list}${more}</section>`;
}

function notes(texts: readonly string[]): HTMLElement {
  return el`<div class="notes">${texts.map((text) => el`<p>${bdi(text)}</p>`)}</div>`;
}

function empty({ model: { data } }: App): Child[] {
  return [
    el`<div class="text"><h1>Nothing is copied in this cluster</h1>
      ${notes(data.notes)}
      <p>Keyferry looked for rules. Rules are: ${data.ruleNames}.</p>
      <p>To begin, annotate a Secret with the namespaces that get a copy:</p>
      <pre>kubectl annotate secret NAME k8s-replicator/replicate-to-namespaces='team-.+'</pre></div>`,
  ];
}
