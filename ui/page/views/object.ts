/** An object or a rule: the trace through it, what is not made and why, facts, and commands for a terminal. */
import { sentence, someOf } from '../../../src/runtime/text/texts.ts';
import type { Place } from '../../data.ts';
import { namespaceAddress, placeKey, type Route, titleOf } from '../address.ts';
import { bdi, type Child, copyButton, el, glyph, isolated, link, objectLink } from '../dom.ts';
import type { MapView } from '../map.ts';
import { columnsOf, groupsOf, type Links, linksOf, type Made, type Model, type RuleRow } from '../model.ts';
import { meaning } from '../problems.ts';
import { age, copies, count, LOOK, number, type State, why, worse } from '../words.ts';
import { advice } from './overview.ts';
import { sourceLink } from './table.ts';

/** Namespaces of one reason that are listed, at most. */
const LISTED = 600;
/** Copies in the trace that are drawn alone for one rule, at most. */
const ALONE = 12;

export function objectView(model: Model, { place }: Route, map: MapView): Child[] {
  const { rules, users, makers } = linksOf(model);
  const key = placeKey(place);
  const [own, after, made] = [rules.get(key) ?? [], users.get(key) ?? [], makers.get(key) ?? []];
  const orphan = model.data.orphans.find((one) => placeKey(one) === key);
  const rows = [...new Set([...own, ...after])];
  const state = [...own, ...made.map(([, target]) => target)].reduce<State>((all, one) => worse(all, one.state), 'ok');
  const isKnown = rows.length > 0 || made.length > 0 || orphan !== undefined;
  map.set({ rows, columns: columnsOf(rows) });
  return [
    el`<h1>${isKnown && [glyph(state), ' ']}${bdi(titleOf(place))}</h1>`,
    place.namespace !== '' && el`<p>In namespace ${link(namespaceAddress(place.namespace), place.namespace)}</p>`,
    el`<p>${bdi(orphan === undefined ? summary(own, after, made) : `A copy without a rule: ${sentence(orphan.reason)}`)}</p>`,
    isKnown && el`<div class="wide">${trace(model, place)}</div>`,
    rows.some(({ cells }) => cells.size > 0) && el`<div class="strip">${map.element}</div>`,
    rows.map((row) => failures(model, row)),
    el`<div class="columns">${facts(model, rows)}${commands(place, own.length > 0)}</div>`,
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
  for (const [{ title }, target] of makers) {
    const claims = `claims it: ${LOOK[target.state].word}${target.reason && ` (${why(target)})`}`;
    parts.push(`${title} ${target.state === 'ok' ? 'keeps it up to date' : claims}.`);
  }
  const nothing = 'No rule makes, copies or names this object. It may have been deleted, or may never have been there.';
  return parts.join(' ') || nothing;
}

/** The targets that are not up to date, by reason. */
function failures(model: Model, { targets, rule }: RuleRow): HTMLElement[] {
  return groupsOf(targets.filter(({ state }) => state !== 'ok')).map(({ state, reason, message, targets: all }) => {
    const { word } = LOOK[state];
    const links = all.slice(0, LISTED).map((one) => el`<li>${objectLink(one, one.namespace || one.name)}</li>`);
    return el`<section aria-label="${word}: ${reason} (${rule.name})">
      <h2>${glyph(state)} ${copies(all.length)} ${word}: ${bdi(reason)}</h2>
      <p>${bdi(sentence(message || meaning(model, reason)))} ${advice(model, reason)}</p>
      <ul class="names">${links}</ul>
      ${all.length > LISTED && el`<p>and ${number(all.length - LISTED)} more</p>`}
    </section>`;
  });
}

function facts({ data: { at } }: Model, rows: readonly RuleRow[]): HTMLElement {
  const items = rows.flatMap((row): (readonly [string, Child])[] => {
    const { destinations, state, since, lastSyncTime, warnings } = row.rule;
    return [
      ['Rule', row.title],
      ['Source', sourceLink(row)],
      ['Into', destinations.join(', ') || 'nothing'],
      ['State', `${state}, ${why(row.rule)}`],
      ['Since', since === null ? 'not known' : age(since, at)],
      ['Last sync', lastSyncTime === null ? 'never' : `${age(lastSyncTime, at)} ago`],
      ...warnings.map((warning) => ['Warning', warning] as const),
    ];
  });
  return el`<section aria-label="Facts"><h2>Facts</h2>
    <dl>${items.map(([term, value]) => [el`<dt>${term}</dt>`, el`<dd>${isolated(value)}</dd>`])}</dl></section>`;
}

function commands({ cluster = '', kind, namespace, name }: Place, isRule: boolean): HTMLElement {
  const lines = [
    `keyferry explain ${kind.toLowerCase()} ${namespace}/${name}`,
    ...(isRule ? [`keyferry status -n ${namespace} -o wide`] : []),
    `kubectl -n ${namespace} describe ${kind.toLowerCase()} ${name}`,
  ];
  // An object of the API has a plain name. What has not stands in an address that somebody made up.
  const isPlain = cluster === '' && [kind, namespace, name].every((word) => /^[\w.-]+$/.test(word));
  return el`<section aria-label="In a terminal"><h2>In a terminal</h2>${(isPlain ? lines : []).map(
    (line) => el`<div class="command"><code>${line}</code>${copyButton('Copy', () => line)}</div>`,
  )}</section>`;
}

/**
 * Where an object comes from and where it goes: source, rule, copies, from left to right, as nested lists. Copies are
 * bundled by state and reason. Only a copy that is a source itself is drawn alone, with what comes after it.
 */
function trace(model: Model, chosen: Place): HTMLElement {
  const links = linksOf(model);
  const chosenKey = placeKey(chosen);
  /** @param seen what is before, as keys of objects and ids of rules */
  const objectItem = (place: Place, seen: readonly string[], state?: State): HTMLElement => {
    const key = placeKey(place);
    if (seen.includes(key)) return back(place);
    // A rule whose source is not known is the beginning itself.
    const rules = (links.users.get(key) ?? []).concat((links.rules.get(key) ?? []).filter(({ rule }) => !rule.from));
    const { cluster = '', kind, namespace } = place;
    const where = `${kind} in ${namespace || 'the cluster'}${cluster && `, cluster ${cluster}`}`;
    return item({
      state,
      isChosen: key === chosenKey,
      head: kind === 'Vault' ? `Vault ${cluster}` : where,
      name: objectLink(place, place.name),
      foot: rules.length > 0 ? 'the source' : '',
      after: rules.map((row) => ruleItem(row, [...seen, key])),
    });
  };
  const ruleItem = ({ rule, state, targets }: RuleRow, seen: readonly string[]): HTMLElement => {
    if (seen.includes(rule.id)) return back(rule);
    const isAlone = (key: string): boolean => links.users.has(key) || key === chosenKey;
    const alone = new Set(targets.filter((target) => isAlone(placeKey(target))).slice(0, ALONE));
    const bundles = groupsOf(targets.filter((target) => !alone.has(target))).map((group) => {
      const all = group.targets.map((one) => one.namespace || one.name);
      return item({
        state: group.state,
        type: all.length > 1 ? 'bundle' : '',
        head: LOOK[group.state].word,
        name: copies(all.length),
        foot: `${group.reason && `${group.reason}: `}${someOf(all, 2)}`,
      });
    });
    return item({
      state,
      type: 'rule',
      isChosen: placeKey(rule) === chosenKey,
      head: `${rule.kind} of ${rule.namespace}`,
      name: objectLink(rule, rule.name),
      foot: rule.destinations.length === 0 ? '' : `into ${someOf(rule.destinations, 3)}`,
      after: [...Array.from(alone, (target) => objectItem(target, [...seen, rule.id], target.state)), ...bundles],
    });
  };
  return el`<ul class="trace" aria-label="From the source to the copies">${objectItem(rootOf(links, chosen), [])}</ul>`;
}

/** Goes from copy to source until nothing is before. A ring ends where it began. */
function rootOf(links: Links, place: Place, after: readonly string[] = []): Place {
  const seen = [...after, placeKey(place)];
  const [maker] = links.makers.get(placeKey(place))?.find(([, { state }]) => state !== 'refused') ?? [];
  const from = (maker ?? links.rules.get(placeKey(place))?.[0])?.rule.from ?? undefined;
  return from === undefined || seen.includes(placeKey(from)) ? place : rootOf(links, from, seen);
}

interface Item {
  readonly state?: State | undefined;
  readonly type?: 'rule' | 'bundle' | '';
  readonly isChosen?: boolean;
  readonly head: string;
  readonly name: Child;
  readonly foot?: string;
  readonly after?: readonly HTMLElement[];
}

/** A card of the trace, and what comes after it. */
function item({ state, type = '', isChosen = false, head, name, foot = '', after = [] }: Item): HTMLElement {
  return el`<li><div class="card ${type} ${state ?? ''} ${isChosen && 'chosen'}" aria-current=${isChosen && 'true'}>
      <small>${state !== undefined && [glyph(state), ' ']}${bdi(head)}</small>
      <strong>${name}</strong>
      <small>${bdi(foot)}</small>
    </div>${after.length > 0 && el`<ul>${after}</ul>`}</li>`;
}

const back = (place: Place): HTMLElement => item({ head: '↺ back to', name: objectLink(place, place.name) });
