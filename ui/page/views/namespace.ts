/** A namespace: what comes in and from whom, what goes out, and who may copy into it. */
import { objectAddress } from '../address.ts';
import type { App } from '../app.ts';
import { bdi, type Child, el, link, stateCell, table } from '../dom.ts';
import { type RuleRow, whoMay } from '../model.ts';
import { copies, count, number, why } from '../text.ts';

export function namespaceView({ model: { data, rows } }: App, name: string): Child[] {
  const incoming = rows.flatMap((row) =>
    row.targets.filter((one) => one.namespace === name && !one.cluster).map((target) => [row, target] as const),
  );
  const outgoing = rows.filter(({ rule }) => rule.namespace === name);
  return [
    el`<p class="path">${link('#map', 'Map')}</p>`,
    el`<h1>Namespace ${bdi(name)}</h1>`,
    el`<p>${bdi(whoMay(data, name))}</p>`,
    el`<h2>${incoming.length === 0 ? 'Nothing comes in' : `Comes in: ${copies(incoming.length)}`}</h2>`,
    incoming.length > 0 &&
      table(
        'What comes in',
        ['Object', 'State', 'From', 'By the rule', 'Why'],
        incoming.map(([row, target]) => [
          link(objectAddress(target), `${target.kind} ${target.name}`),
          stateCell(target.state),
          sourceLink(row),
          link(objectAddress(row.rule), row.title),
          bdi(why(target)),
        ]),
      ),
    el`<h2>${outgoing.length === 0 ? 'Nothing goes out' : `Goes out by ${count(outgoing.length, 'rule')}`}</h2>`,
    outgoing.length > 0 &&
      table(
        'What goes out',
        ['Rule', 'State', 'Source', 'Into', 'Copies'],
        outgoing.map((row) => [
          link(objectAddress(row.rule), row.title),
          stateCell(row.state),
          sourceLink(row),
          bdi(row.rule.destinations.join(', ')),
          row.isCounted ? number(row.counts.get('ok') ?? 0) : '?',
        ]),
      ),
  ];
}

export function sourceLink({ rule: { from, source } }: RuleRow): HTMLElement {
  return from === null ? bdi(source) : link(objectAddress(from), source);
}
