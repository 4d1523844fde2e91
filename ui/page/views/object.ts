/** An object or a rule: the trace through it, what is not made and why, facts, and commands for a terminal. */
import { sentence } from '../../../src/runtime/text/texts.ts';
import type { Place } from '../../data.ts';
import { listAddress, namespaceAddress, objectAddress } from '../address.ts';
import type { App } from '../app.ts';
import { bdi, type Child, copyButton, el, glyph, link } from '../dom.ts';
import { columnsOf, groupsOf, linksOf, placeKey, type RuleRow, type Target, titleOf } from '../model.ts';
import { meaning } from '../problems.ts';
import { LOOK, type State, worse } from '../states.ts';
import { age, copies, count, number, why } from '../text.ts';
import { trace } from '../trace.ts';
import { sourceLink } from './namespace.ts';
import { advice } from './problems.ts';

/** Namespaces of one reason that are listed, at most. */
const LISTED = 600;

type Made = readonly [RuleRow, Target];

export function objectView(app: App, place: Place): Child[] {
  const { model, map } = app;
  const [links, key] = [linksOf(model), placeKey(place)];
  const [own, users, makers] = [links.rules.get(key) ?? [], links.users.get(key) ?? [], links.makers.get(key) ?? []];
  const orphan = model.data.orphans.find((one) => placeKey(one) === key);
  const rows = [...new Set([...own, ...users])];
  const states = [...own, ...makers.map(([, target]) => target)].map(({ state }) => state);
  const isKnown = rows.length > 0 || makers.length > 0 || orphan !== undefined;
  map.set({ rows, columns: columnsOf(rows), otherOrder: listAddress('map', { q: titleOf(place) }) });
  return [
    el`<p class="path">${link('#map', 'Map')} › ${link(namespaceAddress(place.namespace), place.namespace)}</p>`,
    el`<h1>${isKnown && [glyph(states.reduce<State>(worse, 'ok')), ' ']}${bdi(titleOf(place))}</h1>`,
    el`<p>${bdi(orphan === undefined ? summary(own, users, makers) : `A copy without a rule: ${sentence(orphan.reason)}`)}</p>`,
    isKnown && el`<div class="wide">${trace(model, place)}</div>`,
    rows.some(({ cells }) => cells.size > 0) && el`<div class="strip">${map.element}</div>`,
    rows.map((row) => failures(app, row)),
    el`<div class="columns">${facts(app, rows, makers)}${commands(place, own)}</div>`,
  ];
}

function summary(own: readonly RuleRow[], users: readonly RuleRow[], makers: readonly Made[]): string {
  const parts = own.map(({ rule, targets, counts }) => {
    const made = targets.length - (counts.get('refused') ?? 0);
    if (rule.ready) return `The rule is ready. ${copies(made)}.`;
    const wrong = made - (counts.get('ok') ?? 0);
    return `The rule is not ready. ${wrong > 0 ? `${number(wrong)} of ${copies(made)} are not up to date` : why(rule)}.`;
  });
  if (own.length === 0 && users.length > 0) parts.push(`${count(users.length, 'rule copies', 'rules copy')} it.`);
  for (const [{ title }, { state }] of makers)
    parts.push(`${title} ${state === 'ok' ? 'keeps it up to date' : `claims it: ${LOOK[state].word}`}.`);
  const nothing = 'No rule makes, copies or names this object. It may have been deleted, or may never have been there.';
  return parts.join(' ') || nothing;
}

/** The targets that are not up to date, by reason. */
function failures({ model }: App, { targets, rule }: RuleRow): HTMLElement[] {
  return groupsOf(targets.filter(({ state }) => state !== 'ok')).map(({ state, reason, targets: all }) => {
    const { word } = LOOK[state];
    const names = all
      .slice(0, LISTED)
      .map((one) => el`<li>${link(objectAddress(one), one.namespace || one.name)}</li>`);
    return el`<section aria-label="${word}: ${reason} (${rule.name})">
      <h2>${glyph(state)} ${copies(all.length)} ${word}: ${bdi(reason)}</h2>
      <p>${bdi(sentence(all[0]?.message || meaning(model, reason)))} ${advice(model, reason)}</p>
      <ul class="names">${names}</ul>
      ${all.length > LISTED && el`<p>and ${number(all.length - LISTED)} more</p>`}
    </section>`;
  });
}

function facts({ model, now }: App, rows: readonly RuleRow[], makers: readonly Made[]): HTMLElement {
  const made = makers.map(([{ rule, title }, target]): readonly [string, Child] => {
    const { state, reason, message } = target;
    const cause = reason === '' ? '' : ` (${why({ reason, message: message || meaning(model, reason) })})`;
    return ['Made by', [link(objectAddress(rule), title), bdi(`: ${LOOK[state].word}${cause}`)]];
  });
  const items = rows.flatMap((row): (readonly [string, Child])[] => {
    const { destinations, state, since, lastSyncTime, warnings } = row.rule;
    return [
      ['Rule', bdi(row.title)],
      ['Source', sourceLink(row)],
      ['Into', bdi(destinations.join(', ') || 'nothing')],
      ['State', bdi(`${state}, ${why(row.rule)}`)],
      ['Since', since === null ? 'not known' : age(since, now)],
      ['Last sync', lastSyncTime === null ? 'never' : `${age(lastSyncTime, now)} ago`],
      ...warnings.map((warning) => ['Warning', bdi(warning)] as const),
    ];
  });
  return el`<section aria-label="Facts"><h2>Facts</h2>
    <dl>${[...made, ...items].map(([term, value]) => [el`<dt>${term}</dt>`, el`<dd>${value}</dd>`])}</dl></section>`;
}

function commands({ cluster, kind, namespace, name }: Place, own: readonly RuleRow[]): HTMLElement {
  const lines = [
    `keyferry explain ${kind.toLowerCase()} ${namespace}/${name}`,
    ...(own.length > 0 ? [`keyferry status -n ${namespace} -o wide`] : []),
    `kubectl -n ${namespace} describe ${kind.toLowerCase()} ${name}`,
  ];
  // An object of the API has a plain name. What has not stands in an address that somebody made up.
  const isPlain = cluster === '' && [kind, namespace, name].every((word) => /^[\w.-]+$/.test(word));
  return el`<section aria-label="In a terminal"><h2>In a terminal</h2>${(isPlain ? lines : []).map(
    (line) => el`<div class="command"><code>${line}</code>${copyButton('Copy', () => line)}</div>`,
  )}</section>`;
}
