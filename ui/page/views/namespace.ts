/** A namespace: what comes in and from whom, what goes out, and who may copy into it. */
import { objectAddress } from '../address.ts';
import type { App } from '../app.ts';
import { bdi, copyButton, h, link } from '../dom.ts';
import { namespaceText } from '../markdown.ts';
import { namespaceFacts } from '../namespace-facts.ts';
import { count } from '../text.ts';
import { stateCell } from './object.ts';

export function namespaceView(app: App, name: string): HTMLElement[] {
  const { incoming, outgoing, who } = namespaceFacts(app.model, name);
  return [
    h(
      'div.text',
      h('p.path', link('#map', 'Map')),
      h('h1', 'Namespace ', bdi(name)),
      h('p', bdi(who)),
      copyButton('Copy as text', () => namespaceText(app.model, name)),
      h('h2', incoming.length === 0 ? 'Nothing comes in' : `Comes in: ${count(incoming.length, 'copy', 'copies')}`),
      incoming.length > 0 &&
        table(
          'What comes in',
          ['Object', 'State', 'From', 'By the rule', 'Why'],
          incoming.map(([{ rule, title }, target]) => [
            link(objectAddress(target), bdi(`${target.kind} ${target.name}`)),
            stateCell(target.state),
            rule.from === null ? bdi(rule.source) : link(objectAddress(rule.from), bdi(rule.source)),
            link(objectAddress(rule), bdi(title)),
            bdi(target.reason === '' ? '' : `${target.reason}: ${target.message}`),
          ]),
        ),
      h('h2', outgoing.length === 0 ? 'Nothing goes out' : `Goes out by ${count(outgoing.length, 'rule')}`),
      outgoing.length > 0 &&
        table(
          'What goes out',
          ['Rule', 'State', 'Source', 'Into', 'Copies'],
          outgoing.map(({ rule, title, state, counts }) => [
            link(objectAddress(rule), bdi(title)),
            stateCell(state),
            bdi(rule.source),
            bdi(rule.destinations.join(', ')),
            rule.isCounted ? (counts.get('ok') ?? 0).toLocaleString('en') : '?',
          ]),
        ),
    ),
  ];
}

export function table(
  label: string,
  head: readonly string[],
  rows: readonly (readonly (Node | string)[])[],
): HTMLElement {
  return h(
    'div.wide',
    { tabindex: 0, role: 'region', 'aria-label': label },
    h(
      'table',
      h('caption.hidden', label),
      h('thead', h('tr', ...head.map((text) => h('th', { scope: 'col' }, text)))),
      h('tbody', ...rows.map((cells) => h('tr', ...cells.map((cell) => h('td', cell))))),
    ),
  );
}
