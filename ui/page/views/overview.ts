/**
 * The overview: a line of counts, the three worst problems, and the map, which has the room if there is a filter. And all
 * problems: an item for each cause, with what happened, since when, the words of the server, and who ends it and how.
 */
import { sentence, someOf } from '../../../src/runtime/text/texts.ts';
import { listAddress, type Route, titleOf } from '../address.ts';
import { bdi, type Child, el, glyph, legend, link, objectLink } from '../dom.ts';
import type { MapView } from '../map.ts';
import { type Model, type Part, partOf } from '../model.ts';
import { type Problem, problemsOf } from '../problems.ts';
import { age, copies, count, LOOK, number, type State } from '../words.ts';

const SHOWN = 3;
const ORDER: readonly State[] = ['ok', 'pending', 'waiting', 'bad', 'refused'];

const LEGEND = ORDER.map((state) => [state, LOOK[state].word] as const);
const HELP = 'blank: no copy · / search · arrows move · Enter opens · ';

export function overview(model: Model, route: Route, map: MapView): Child[] {
  const { rules, orphans, notes } = model.data;
  const said = el`<div class="notes">${notes.map((text) => el`<p>${bdi(text)}</p>`)}</div>`;
  if (rules.length === 0 && orphans.length === 0) return [said, empty(model)];
  const part = partOf(model, route);
  const hidden = filterLine(model, route, part);
  // What a filter leaves is not folded.
  const open = hidden === false ? route.open : undefined;
  map.set({ ...part, order: route.order, open, addressOf: (change) => listAddress('map', { ...route, ...change }) });
  return [
    el`<h1 class="hidden">Overview</h1>`,
    counts(model, route),
    hidden === false ? [said, worst(model)] : hidden,
    map.element,
    legend(LEGEND, el`<span class="end">${HELP}${link('#table', 'as a table')}</span>`),
  ];
}

/** The counts, each of which is a filter. A count of 0 is not shown. */
function counts({ data, counts }: Model, route: Route): HTMLElement {
  /** A link that sets a filter, or ends it. */
  const filter = (key: 'state' | 'sys', value: string, text: Child): HTMLElement => {
    const isChosen = route[key] === value;
    const href = listAddress('map', { ...route, open: [], [key]: isChosen ? '' : value });
    return el`<a href=${href} aria-current=${isChosen && 'true'}>${text}</a>`;
  };
  const counted = (look: keyof typeof LOOK, value = 0): HTMLElement =>
    el`<span>${glyph(look)} <strong>${number(value)}</strong> ${look === 'ok' && 'copies '}${LOOK[look].word}</span>`;
  const states = ORDER.filter((state) => counts.has(state));
  const { length } = data.orphans;
  const systems = [...new Set(data.rules.map(({ system }) => system))].map((system) => filter('sys', system, system));
  const namespaces = data.namespaces === null ? 'namespaces not known' : count(data.namespaces.length, 'namespace');
  return el`<p class="counts">${states.map((state) => filter('state', state, counted(state, counts.get(state))))}
    ${length > 0 && link('#problems', counted('orphan', length))}
    <span class="end">${systems.length > 1 && systems}<span>${count(data.rules.length, 'rule')} · ${namespaces}</span></span></p>`;
}

/** What a filter hides; `false`: there is no filter. */
export function filterLine(model: Model, { view, q, state, sys }: Route, { rows, columns }: Part): Child {
  const words = [q && `“${q}”`, state && LOOK[state].word, sys].filter(Boolean).join(', ');
  if (words === '') return false;
  const rules = `${number(rows.length)} of ${count(model.rows.length, 'rule')}`;
  const shown = `Shows ${rules} and ${number(columns.length)} of ${count(model.columns.length, 'namespace')}: `;
  const text = rows.length === 0 ? 'Nothing matches ' : shown;
  return el`<p class="filter" role="status">${text}${bdi(words)}. ${link(`#${view}`, 'Show all')}</p>`;
}

function worst(model: Model): Child[] {
  const problems = problemsOf(model);
  const { length } = problems;
  return [
    problemList(model, problems.slice(0, SHOWN)),
    length === 0 && el`<p class="filter">Every copy is up to date.</p>`,
    length > SHOWN && el`<p class="filter">${link('#problems', `All ${length} problems`)}</p>`,
  ];
}

function empty({ data }: Model): HTMLElement {
  return el`<div class="text"><h1>Nothing is copied in this cluster</h1>
    <p>Keyferry looked for rules. Rules are: ${data.ruleNames}.</p>
    <p>To begin, annotate a Secret with the namespaces that get a copy:</p>
    <pre>kubectl annotate secret NAME k8s-replicator/replicate-to-namespaces='team-.+'</pre></div>`;
}

export function problemsView(model: Model): Child[] {
  const problems = problemsOf(model);
  const { orphans } = model.data;
  return [
    el`<h1>${problems.length === 0 ? 'Every copy is up to date' : count(problems.length, 'problem')}</h1>`,
    problemList(model, problems),
    orphans.length > 0 && el`<h2>${copies(orphans.length)} without a rule</h2>`,
    el`<ul>${orphans.map((one) => el`<li>${glyph('orphan')} ${objectLink(one, titleOf(one))}: ${bdi(one.reason)}</li>`)}</ul>`,
  ];
}

function problemList(model: Model, problems: readonly Problem[]): HTMLElement {
  return el`<ul class="problems">${problems.map((problem) => item(model, problem))}</ul>`;
}

function item(model: Model, { rows, state, what, groups, reason, message }: Problem): HTMLElement {
  const [group, ...others] = groups;
  const { since } = rows[0]?.rule ?? {};
  const names = someOf([...new Set(group?.targets.map((one) => one.namespace || one.name) ?? [])], 3);
  const rest = others.map((one) => `${copies(one.targets.length)} ${LOOK[one.state].word} (${one.reason})`);
  const links = rows.map(({ rule, title }, at) => [at > 0 && ' → ', objectLink(rule, title)]);
  return el`<li class="problem">${glyph(state)}<div>
    <h2>${links} — ${what}</h2>
    <p>${names !== '' && bdi(message === '' ? `${names}. ` : `${names}: `)}${message !== '' && bdi(`${sentence(message)} `)}
      ${advice(model, reason)}${rest.length > 0 && `Also ${rest.join(', ')}. `}
      ${group !== undefined && link(listAddress('map', { q: rows[0]?.title ?? '' }), 'Show on the map')}</p>
    </div><span class="since">${since != null && `since ${age(since, model.data.at)}`}</span></li>`;
}

/** Who ends it, and how. */
export function advice(model: Model, reason: string): Child {
  const { who = '', how = '' } = model.advice.get(reason) ?? {};
  return how !== '' && [el`<strong>${sentence(who).slice(0, -1)}</strong>`, `: ${sentence(how)} `];
}
