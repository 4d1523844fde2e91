/** An object or a rule: the trace through it, what is not made and why, facts, and commands for a terminal. */
import type { Place } from '../../data.ts';
import { listAddress, namespaceAddress, objectAddress } from '../address.ts';
import type { App } from '../app.ts';
import { bdi, type Child, copyButton, glyphOf, h, link } from '../dom.ts';
import type { MapView } from '../map.ts';
import { objectText } from '../markdown.ts';
import { groupsOf, linksOf, placeKey, type Row, type Target, titleOf } from '../model.ts';
import { meaning, mender } from '../problems.ts';
import { LOOK, type State, worst } from '../states.ts';
import { age, count, sentence } from '../text.ts';
import { trace } from '../trace.ts';

/** Namespaces of one reason that are listed, at most. */
const LISTED = 600;

export function objectView(app: App, place: Place, map: MapView): HTMLElement[] {
  const { model } = app;
  const links = linksOf(model);
  const key = placeKey(place);
  const [own, users, makers] = [links.rules.get(key) ?? [], links.users.get(key) ?? [], links.makers.get(key) ?? []];
  const orphan = model.data.orphans.find((one) => placeKey(one) === key);
  const rows = [...new Set([...own, ...users])];
  const state = worst([...own.map((row) => row.state), ...makers.map(([, target]) => target.state)]);
  const isKnown = rows.length > 0 || makers.length > 0 || orphan !== undefined;
  if (rows.length > 0) {
    const columns = [...new Set(rows.flatMap(({ cells }) => [...cells.keys()]))].toSorted();
    map.set({
      rows,
      columns,
      order: 'name',
      open: undefined,
      otherOrder: listAddress('map', { q: titleOf(place) }),
      foldAddress: () => '#',
    });
  }
  return [
    h(
      'div.text',
      h('p.path', link('#map', 'Map'), ' › ', link(namespaceAddress(place.namespace), bdi(place.namespace))),
      h('h1', ...(isKnown ? [glyphOf(state), ' '] : []), bdi(titleOf(place))),
      h('p', ...summary(own, users, makers, orphan)),
      isKnown && copyButton('Copy as text', () => objectText(model, place)),
    ),
    isKnown && h('div.wide', trace(model, place)),
    rows.some(({ cells }) => cells.size > 0) && h('div.strip', map.element),
    ...rows.flatMap((row) => failures(app, row)),
    h('div.text.columns', facts(app, rows, makers), commands(place, own)),
  ].filter((part) => part !== false);
}

function summary(
  own: readonly Row[],
  users: readonly Row[],
  makers: readonly (readonly [Row, Target])[],
  orphan: { readonly reason: string } | undefined,
): Child[] {
  if (orphan !== undefined) return ['A copy without a rule: ', bdi(sentence(orphan.reason))];
  const parts = own.map(({ rule, state, targets }) => {
    const wrong = targets.filter((one) => one.state !== 'ok' && one.state !== 'refused').length;
    const made = targets.filter((one) => one.state !== 'refused').length;
    if (state === 'ok') return `The rule is ready. ${count(made, 'copy', 'copies')}.`;
    if (wrong > 0)
      return `The rule is not ready. ${wrong.toLocaleString('en')} of ${count(made, 'copy', 'copies')} are not up to date.`;
    return `The rule is not ready. ${rule.reason}: ${sentence(rule.message)}`;
  });
  const made = makers.map(
    ([row, { state }]) => `${row.title} ${state === 'ok' ? 'keeps it up to date' : `claims it: ${LOOK[state].word}`}.`,
  );
  if (own.length === 0 && users.length > 0) parts.push(`${count(users.length, 'rule copies', 'rules copy')} it.`);
  const all = [...parts, ...made];
  return [
    bdi(
      all.length === 0
        ? 'No rule makes, copies or names this object. It may have been deleted, or may never have been there.'
        : all.join(' '),
    ),
  ];
}

/** The targets that are not up to date, by reason. */
function failures({ model }: App, { targets, rule }: Row): HTMLElement[] {
  const groups = groupsOf(targets.filter(({ state }) => state !== 'ok'));
  return groups.map(({ state, reason, targets: all }) => {
    const advice = mender(model, reason);
    const names = all.slice(0, LISTED);
    return h(
      'section.text',
      { 'aria-label': `${LOOK[state].word}: ${reason} (${rule.name})` },
      h('h2', glyphOf(state), ' ', `${count(all.length, 'copy', 'copies')} ${LOOK[state].word}: `, bdi(reason)),
      h(
        'p',
        bdi(sentence(all[0]?.message || meaning(model, reason))),
        ' ',
        advice !== undefined && h('strong', advice.who),
        advice !== undefined && ` ${advice.how}`,
      ),
      h('ul.names', ...names.map((one) => h('li', link(objectAddress(one), bdi(one.namespace))))),
      all.length > names.length && h('p', `and ${(all.length - names.length).toLocaleString('en')} more`),
    );
  });
}

function facts({ model, now }: App, rows: readonly Row[], makers: readonly (readonly [Row, Target])[]): HTMLElement {
  const items = rows.flatMap(({ rule, title }): (readonly [string, Child])[] => [
    ['Rule', bdi(title)],
    ['Source', rule.from === null ? bdi(rule.source) : link(objectAddress(rule.from), bdi(rule.source))],
    ['Into', bdi(rule.destinations.join(', ') || 'nothing')],
    ['State', bdi(`${rule.state}, ${rule.reason}${rule.message === '' ? '' : `: ${rule.message}`}`)],
    ['Since', rule.since === null ? 'not known' : age(rule.since, now)],
    ['Last sync', rule.lastSyncTime === null ? 'never' : `${age(rule.lastSyncTime, now)} ago`],
    ...rule.warnings.map((warning) => ['Warning', bdi(warning)] as const),
  ]);
  const made = makers.map(([{ rule, title }, { state, reason, message }]): readonly [string, Child] => [
    'Made by',
    h(
      'span',
      link(objectAddress(rule), bdi(title)),
      bdi(`: ${LOOK[state].word}${reason === '' ? '' : ` (${reason}: ${message || meaning(model, reason)})`}`),
    ),
  ]);
  return h(
    'section',
    { 'aria-label': 'Facts' },
    h('h2', 'Facts'),
    h('dl', ...[...made, ...items].flatMap(([term, value]) => [h('dt', term), h('dd', value)])),
  );
}

function commands({ kind, namespace, name }: Place, own: readonly Row[]): HTMLElement {
  const lines = [
    `keyferry explain ${kind.toLowerCase()} ${namespace}/${name}`,
    ...(own.length > 0 ? [`keyferry status -n ${namespace} -o wide`] : []),
    `kubectl -n ${namespace} describe ${kind.toLowerCase()} ${name}`,
  ];
  // An object of the API has a plain name. What has not stands in an address that somebody made up.
  const isPlain = [kind, namespace, name].every((word) => /^[\w.-]+$/.test(word));
  return h(
    'section',
    { 'aria-label': 'In a terminal' },
    h('h2', 'In a terminal'),
    ...(isPlain ? lines : []).map((line) =>
      h(
        'div.command',
        h('code', line),
        copyButton('Copy', () => line),
      ),
    ),
  );
}

export function stateCell(state: State): HTMLElement {
  return h('span', glyphOf(state), ` ${LOOK[state].word}`);
}
