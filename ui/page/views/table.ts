/** Copies as tables: all of them, for screen readers and for copying into a sheet, or those of one namespace. */
import { listAddress, namespaceAddress, type Route } from '../address.ts';
import { bdi, type Child, el, glyph, link, objectLink, table } from '../dom.ts';
import { columnOf, type Model, partOf, type RuleRow, type Target, whoMay } from '../model.ts';
import { copies, count, LOOK, number, type State, why } from '../words.ts';
import { filterLine } from './overview.ts';

/** A rule, or one of its targets. */
type Line = readonly [RuleRow, Target?];

export function tableView(model: Model, route: Route): Child[] {
  const part = partOf(model, route);
  const shown = new Set(part.columns);
  const isShown = (target: Target): boolean =>
    shown.has(columnOf(target)) && (route.state === '' || target.state === route.state);
  const all = part.rows.flatMap((row): readonly Line[] => {
    const lines = linesOf(row, isShown);
    return lines.length === 0 ? [[row]] : lines;
  });
  const page = all.slice(0, route.lines);
  const more = link(listAddress('table', { ...route, lines: route.lines * 4 }), 'Show more');
  return [
    el`<h1>${count(all.length, 'line')}</h1>`,
    filterLine(model, route, part),
    copyTable('All copies', page),
    el`<p>${number(page.length)} of ${number(all.length)} ${page.length < all.length && more}</p>`,
  ];
}

/** What comes into a namespace and from whom, what goes out, and who may copy into it. */
export function namespaceView({ data, rows }: Model, { place: { namespace: name } }: Route): Child[] {
  const incoming = rows.flatMap((row) => linesOf(row, (one) => one.namespace === name && !one.cluster));
  const outgoing = rows.filter(({ rule }) => rule.namespace === name).map((row): Line => [row]);
  return [
    el`<h1>Namespace ${bdi(name)}</h1>`,
    el`<p>${bdi(whoMay(data, name))}</p>`,
    el`<h2>${incoming.length === 0 ? 'Nothing comes in' : `Comes in: ${copies(incoming.length)}`}</h2>`,
    incoming.length > 0 && copyTable('What comes in', incoming),
    el`<h2>${outgoing.length === 0 ? 'Nothing goes out' : `Goes out by ${count(outgoing.length, 'rule')}`}</h2>`,
    outgoing.length > 0 && copyTable('What goes out', outgoing),
  ];
}

const linesOf = (row: RuleRow, isShown: (target: Target) => boolean): readonly Line[] =>
  row.targets.filter((target) => isShown(target)).map((target) => [row, target]);

const stateCell = (state: State): Child => [glyph(state), ` ${LOOK[state].word}`];

function copyTable(label: string, lines: readonly Line[]): HTMLElement {
  const cells = lines.map(([row, target]): Child[] => {
    const { rule, title, state, counts } = row;
    const [ruleLink, source] = [objectLink(rule, title), sourceLink(row)];
    if (target === undefined) {
      const made = copies(counts.get('ok') ?? 0);
      return [ruleLink, source, rule.destinations.join(', '), made, stateCell(state), why(rule)];
    }
    const column = columnOf(target);
    const into = target.cluster ? column : link(namespaceAddress(column), column);
    const copy = objectLink(target, `${target.kind} ${target.name}`);
    return [ruleLink, source, into, copy, stateCell(target.state), why(target)];
  });
  return table(label, ['Rule', 'Source', 'Into', 'Copy', 'State', 'Why'], cells);
}

export function sourceLink({ rule: { from }, source }: RuleRow): HTMLElement {
  return from === null ? bdi(source) : objectLink(from, source);
}
