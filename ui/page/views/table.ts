/** Everything as a table: for screen readers, and for copying into a sheet. Long tables come in pages. */
import { listAddress, type ListRoute, namespaceAddress, objectAddress } from '../address.ts';
import type { App } from '../app.ts';
import { bdi, type Child, el, link, stateCell, table } from '../dom.ts';
import { columnOf, partOf, type RuleRow, type Target } from '../model.ts';
import { count, number, why } from '../text.ts';
import { sourceLink } from './namespace.ts';
import { filterLine } from './overview.ts';

const PAGE = 250;

export function tableView(app: App, route: ListRoute): Child[] {
  const part = partOf(app.model, route);
  const shown = new Set(part.columns);
  const isShown = (target: Target): boolean =>
    shown.has(columnOf(target)) && (route.state === '' || target.state === route.state);
  // A rule without targets has a line, too.
  const all = part.rows.flatMap((row): (readonly [RuleRow, Target | undefined])[] => {
    const targets = row.targets.filter((target) => isShown(target));
    return targets.length === 0 ? [[row, undefined]] : targets.map((target) => [row, target]);
  });
  const from = Math.max(0, route.from);
  const page = all.slice(from, route.from < 0 ? undefined : from + PAGE);
  const to = from + page.length;
  const pages = [
    [from - PAGE, 'Previous'],
    [to, 'Next'],
    [-1, 'All'],
  ] as const;
  const links = pages.map(([first, name]) => {
    const isThere = name === 'Previous' ? from > 0 : to < all.length;
    return isThere && [link(listAddress('table', { ...route, from: first }), name), ' '];
  });
  return [
    el`<h1>${count(all.length, 'line')}</h1>`,
    filterLine(app, route, part),
    table('All copies', ['Rule', 'Source', 'Namespace', 'Copy', 'State', 'Why'], page.map(lineOf)),
    el`<p>${Math.min(all.length, from + 1)} to ${to} of ${number(all.length)} ${links}</p>`,
  ];
}

function lineOf([row, target]: readonly [RuleRow, Target | undefined]): Child[] {
  const rule = [link(objectAddress(row.rule), row.title), sourceLink(row)];
  if (target === undefined) return [...rule, '', 'no copy', stateCell(row.state), bdi(why(row.rule))];
  const column = columnOf(target);
  return [
    ...rule,
    target.cluster ? bdi(column) : link(namespaceAddress(column), column),
    link(objectAddress(target), `${target.kind} ${target.name}`),
    stateCell(target.state),
    bdi(why(target)),
  ];
}
