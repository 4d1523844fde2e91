/** Everything as a table: for screen readers, and for copying into a sheet. Long tables come in pages. */
import { type ListRoute, namespaceAddress, objectAddress } from '../address.ts';
import type { App } from '../app.ts';
import { bdi, copyButton, h, link } from '../dom.ts';
import { tableText } from '../markdown.ts';
import { partOf, type Row, type Target } from '../model.ts';
import { count } from '../text.ts';
import { table } from './namespace.ts';
import { stateCell } from './object.ts';
import { filterLine } from './overview.ts';

const PAGE = 250;

/** The targets of a filter. A rule without targets has a line, too. */
export function tableRows(
  { model }: Pick<App, 'model'>,
  route: ListRoute,
): readonly (readonly [Row, Target | undefined])[] {
  const { rows, columns } = partOf(model, route);
  const shown = new Set(columns);
  return rows.flatMap((row): (readonly [Row, Target | undefined])[] => {
    const targets = row.targets.filter(
      ({ namespace, state }) => shown.has(namespace) && (route.state === '' || state === route.state),
    );
    return targets.length === 0 ? [[row, undefined]] : targets.map((target) => [row, target]);
  });
}

export function tableView(app: App, route: ListRoute): HTMLElement[] {
  const all = tableRows(app, route);
  const isFiltered = route.q !== '' || route.state !== '' || route.sys !== '';
  const place = h('div');
  const show = (from: number): void => {
    const lines = all
      .slice(from, from + PAGE)
      .map(([{ rule, title, state }, target]) => [
        link(objectAddress(rule), bdi(title)),
        rule.from === null ? bdi(rule.source) : link(objectAddress(rule.from), bdi(rule.source)),
        target === undefined ? '' : link(namespaceAddress(target.namespace), bdi(target.namespace)),
        target === undefined ? 'no copy' : link(objectAddress(target), bdi(`${target.kind} ${target.name}`)),
        stateCell(target?.state ?? state),
        bdi(
          target === undefined
            ? `${rule.reason}: ${rule.message}`
            : target.reason === ''
              ? ''
              : `${target.reason}: ${target.message}`,
        ),
      ]);
    const to = Math.min(from + PAGE, all.length);
    place.replaceChildren(
      table('All copies', ['Rule', 'Source', 'Namespace', 'Copy', 'State', 'Why'], lines),
      h(
        'p.pages',
        from > 0 && h('button', { type: 'button', click: () => show(from - PAGE) }, 'Previous'),
        ` ${all.length === 0 ? 0 : from + 1} to ${to} of ${all.length.toLocaleString('en')} `,
        to < all.length && h('button', { type: 'button', click: () => show(to) }, 'Next'),
      ),
    );
  };
  show(0);
  return [
    h(
      'div.text',
      h('h1', count(all.length, 'line')),
      copyButton('Copy as text', () => tableText(all)),
    ),
    ...(isFiltered ? [filterLine(app, route, partOf(app.model, route))] : []),
    h('div.text', place),
  ];
}
