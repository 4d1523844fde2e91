/**
 * Where an object comes from and where it goes: source, rule, copies, from left to right, as nested lists. Copies are
 * bundled by state and reason. Only a copy that is a source itself is drawn alone, with what comes after it.
 */
import type { Place } from '../data.ts';
import { objectAddress } from './address.ts';
import { bdi, type Child, glyphOf, h, link } from './dom.ts';
import { groupsOf, linksOf, type Links, type Model, placeKey, type Row, type Target } from './model.ts';
import { LOOK, type State } from './states.ts';
import { count, some } from './text.ts';

type Object = Omit<Place, 'cluster'> & { readonly cluster?: string };

/** Copies drawn alone for one rule, at most. */
const ALONE = 12;

/** @param chosen the object or rule of the view */
export function trace(model: Model, chosen: Object): HTMLElement {
  const links = linksOf(model);
  const root = rootOf(links, chosen);
  return h('ul.trace', { 'aria-label': 'From the source to the copies' }, objectItem(links, root, chosen, new Set()));
}

/** Goes from copy to source until nothing is before. A ring ends where it began. */
function rootOf(links: Links, chosen: Object): Object {
  const seen = new Set<string>();
  let place = chosen;
  for (;;) {
    seen.add(placeKey(place));
    const made = links.makers.get(placeKey(place))?.find(([, { state }]) => state !== 'refused')?.[0];
    const own = links.rules.get(placeKey(place))?.[0];
    const before = (made ?? own)?.rule.from;
    if (before === undefined || before === null || seen.has(placeKey(before))) return place;
    place = before;
  }
}

function objectItem(
  links: Links,
  place: Object,
  chosen: Object,
  seen: ReadonlySet<string>,
  state?: State,
): HTMLElement {
  const key = placeKey(place);
  if (seen.has(key)) return h('li', h('div.card', '↺ back to ', link(objectAddress(place), bdi(place.name))));
  const isRule = links.rules.has(key);
  // A rule without a source that is an object: what is before it is in Vault, or made by nobody.
  const vault = isRule ? (links.rules.get(key) ?? []).filter(({ rule }) => rule.from === null) : [];
  if (vault.length > 0) {
    const items = vault.map((row) =>
      h(
        'li',
        card(
          '',
          false,
          row.rule.source.split(' ')[0] ?? '',
          bdi(row.rule.source.split(' ').slice(1).join(' ')),
          'the source',
        ),
        list([ruleItem(links, row, chosen, new Set([...seen, key]))]),
      ),
    );
    return items.length === 1 && items[0] !== undefined ? items[0] : h('li', list(items));
  }
  const users = links.users.get(key) ?? [];
  const where = `${place.kind} in ${place.namespace === '' ? 'the cluster' : place.namespace}${place.cluster === undefined || place.cluster === '' ? '' : `, cluster ${place.cluster}`}`;
  const role = users.length > 0 ? 'the source' : '';
  const more = new Set([...seen, key]);
  return h(
    'li',
    card(state ?? '', key === placeKey(chosen), where, link(objectAddress(place), bdi(place.name)), role),
    users.length > 0 && list(users.map((row) => ruleItem(links, row, chosen, more))),
  );
}

function ruleItem(links: Links, row: Row, chosen: Object, seen: ReadonlySet<string>): HTMLElement {
  const { rule, state, targets } = row;
  const key = placeKey(rule);
  const isOwn = rule.from !== null && placeKey(rule.from) === key;
  if (!isOwn && seen.has(`rule ${rule.id}`))
    return h('li', h('div.card.rule', '↺ back to ', link(objectAddress(rule), bdi(rule.name))));
  const more = new Set([...seen, `rule ${rule.id}`]);
  const singles = targets
    .filter((target) => isSource(links, target) || placeKey(target) === placeKey(chosen))
    .slice(0, ALONE);
  const rest = targets.filter((target) => !singles.includes(target));
  const into = rule.destinations.length === 0 ? '' : `into ${some(rule.destinations, 3)}`;
  const children = [
    ...singles.map((target) => objectItem(links, target, chosen, more, target.state)),
    ...groupsOf(rest).map((group) => bundle(group.state, group.reason, group.targets)),
  ];
  return h(
    'li',
    card(
      state,
      key === placeKey(chosen),
      `${rule.kind} of ${rule.namespace}`,
      link(objectAddress(rule), bdi(rule.name)),
      bdi(into),
      true,
    ),
    children.length > 0 && list(children),
  );
}

function isSource(links: Links, target: Target): boolean {
  return links.users.has(placeKey(target));
}

function bundle(state: State, reason: string, targets: readonly Target[]): HTMLElement {
  const names = some(
    targets.map(({ namespace }) => namespace),
    2,
  );
  const text = reason === '' ? names : `${reason}: ${names}`;
  return h(
    'li',
    card(state, false, LOOK[state].word, count(targets.length, 'copy', 'copies'), bdi(text), false, targets.length > 1),
  );
}

function list(items: readonly HTMLElement[]): HTMLElement {
  return h('ul', ...items);
}

function card(
  state: State | '',
  isChosen: boolean,
  head: string,
  name: Child,
  foot: Child,
  isRule = false,
  isBundle = false,
): HTMLElement {
  const classes = ['card', isRule && 'rule', isBundle && 'bundle', isChosen && 'chosen', state]
    .filter(Boolean)
    .join(' ');
  return h(
    'div',
    { class: classes, 'aria-current': isChosen && 'true' },
    h('small', ...(state === '' ? [] : [glyphOf(state), ' ']), bdi(head)),
    h('strong', name),
    h('small', foot),
  );
}
