/**
 * Where an object comes from and where it goes: source, rule, copies, from left to right, as nested lists. Copies are
 * bundled by state and reason. Only a copy that is a source itself is drawn alone, with what comes after it.
 */
import { someOf } from '../../src/runtime/text/texts.ts';
import { objectAddress } from './address.ts';
import { bdi, type Child, el, glyph, link } from './dom.ts';
import { groupsOf, type Links, linksOf, type Model, placeKey, type RuleRow, type Spot } from './model.ts';
import { LOOK, type State } from './states.ts';
import { copies } from './text.ts';

/** Copies drawn alone for one rule, at most. */
const ALONE = 12;

interface Way {
  readonly links: Links;
  /** The key of the object or rule of the view. */
  readonly chosen: string;
  /** What is before, as keys of objects and ids of rules. */
  readonly seen: ReadonlySet<string>;
}

/** @param chosen the object or rule of the view */
export function trace(model: Model, chosen: Spot): HTMLElement {
  const links = linksOf(model);
  const item = objectItem({ links, chosen: placeKey(chosen), seen: new Set() }, rootOf(links, chosen));
  return el`<ul class="trace" aria-label="From the source to the copies">${item}</ul>`;
}

/** Goes from copy to source until nothing is before. A ring ends where it began. */
function rootOf(links: Links, chosen: Spot): Spot {
  const seen = new Set<string>();
  let place = chosen;
  for (;;) {
    const key = placeKey(place);
    seen.add(key);
    const made = links.makers.get(key)?.find(([, { state }]) => state !== 'refused')?.[0];
    const before = (made ?? links.rules.get(key)?.[0])?.rule.from ?? undefined;
    if (before === undefined || seen.has(placeKey(before))) return place;
    place = before;
  }
}

function objectItem({ links, chosen, seen }: Way, place: Spot, state?: State): HTMLElement {
  const key = placeKey(place);
  if (seen.has(key)) return back(place);
  // A rule whose source is not known is the beginning itself.
  const rules = (links.users.get(key) ?? []).concat((links.rules.get(key) ?? []).filter(({ rule }) => !rule.from));
  const way = { links, chosen, seen: new Set([...seen, key]) };
  const { cluster = '', kind, namespace } = place;
  const where = kind === 'Vault' ? `Vault ${cluster}` : `${kind} in ${namespace || 'the cluster'}`;
  const own = card({
    state,
    isChosen: key === chosen,
    head: kind === 'Vault' || cluster === '' ? where : `${where}, cluster ${cluster}`,
    name: link(objectAddress(place), place.name),
    foot: rules.length > 0 ? 'the source' : '',
  });
  return item(
    own,
    rules.map((row) => ruleItem(way, row)),
  );
}

function ruleItem({ links, chosen, seen }: Way, { id, rule, state, targets }: RuleRow): HTMLElement {
  if (seen.has(id)) return back(rule);
  const key = placeKey(rule);
  const way = { links, chosen, seen: new Set([...seen, id]) };
  const isAlone = (target: Spot): boolean => links.users.has(placeKey(target)) || placeKey(target) === chosen;
  const alone = new Set(targets.filter((target) => isAlone(target)).slice(0, ALONE));
  const bundles = groupsOf(targets.filter((target) => !alone.has(target))).map((group) => {
    const names = someOf(
      group.targets.map((one) => one.namespace || one.name),
      2,
    );
    const foot = group.reason === '' ? names : `${group.reason}: ${names}`;
    const head = LOOK[group.state].word;
    const type = group.targets.length > 1 ? 'bundle' : '';
    return item(card({ state: group.state, head, name: copies(group.targets.length), foot, type }), []);
  });
  const own = card({
    state,
    isChosen: key === chosen,
    head: `${rule.kind} of ${rule.namespace}`,
    name: link(objectAddress(rule), rule.name),
    foot: rule.destinations.length === 0 ? '' : `into ${someOf(rule.destinations, 3)}`,
    type: 'rule',
  });
  return item(own, [...Array.from(alone, (target) => objectItem(way, target, target.state)), ...bundles]);
}

function back(place: Spot): HTMLElement {
  return item(el`<div class="card">↺ back to ${link(objectAddress(place), place.name)}</div>`, []);
}

function item(own: HTMLElement, after: readonly HTMLElement[]): HTMLElement {
  return el`<li>${own}${after.length > 0 && el`<ul>${after}</ul>`}</li>`;
}

function card(of: {
  state?: State | undefined;
  isChosen?: boolean;
  head: string;
  name: Child;
  foot: string;
  type?: string;
}) {
  const { state, isChosen = false, head, name, foot, type = '' } = of;
  const classes = `card ${type} ${state ?? ''} ${isChosen ? 'chosen' : ''}`;
  return el`<div class=${classes} aria-current=${isChosen && 'true'}>
    <small>${state !== undefined && [glyph(state), ' ']}${bdi(head)}</small>
    <strong>${name}</strong>
    <small>${bdi(foot)}</small>
  </div>`;
}
