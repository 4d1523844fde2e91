/** Makes elements from templates. No HTML is made from a text: what stands in `${…}` becomes a text node or an attribute. */
import type { Place } from '../data.ts';
import { objectAddress } from './address.ts';
import { LOOK, type State, visible } from './words.ts';

export type Child = Node | string | number | false | undefined | readonly Child[];
type Value = Child | true | ((event: never) => unknown);

const HOLE = '\0';
const TOKEN = /<(\/?)(\w+)((?:\s+[\w-]+(?:="[^"]*"|=\0)?)*)\s*>|\0|[^<\0]+/g;
const ATTRIBUTE = /([\w-]+)(?:="([^"]*)"|=(\0))?/g;

/**
 * The element that a template describes. Texts get their unseen characters spelled out. An attribute that is a function
 * is a listener; one that is `false` or `undefined` is left out. A link leads to a view of this page and nowhere else.
 */
export function el(template: TemplateStringsArray, ...values: readonly Value[]): HTMLElement {
  const root = document.createDocumentFragment();
  const open: ParentNode[] = [root];
  let at = 0;
  const next = (): Value => values[at++];
  for (const [token, end, tag, attributes = ''] of template.join(HOLE).matchAll(TOKEN)) {
    const parent = open.at(-1) ?? root;
    if (tag === undefined)
      parent.append(...nodes(token === HOLE ? (next() as Child) : token.replaceAll(/\s*\n\s*/g, '')));
    else if (end !== '') open.pop();
    else {
      const element = document.createElement(tag);
      for (const [, name = '', text = '', hole] of attributes.matchAll(ATTRIBUTE))
        set(element, name, hole === undefined ? text.replaceAll(HOLE, () => (next() as string | false) || '') : next());
      parent.append(element);
      if (tag !== 'input') open.push(element);
    }
  }
  return root.firstElementChild as HTMLElement;
}

function set(element: HTMLElement, name: string, value: Value): void {
  if (value === undefined || value === false) return;
  if (typeof value === 'function') return element.addEventListener(name, value as EventListener);
  const text = value === true ? '' : `${value as string | number}`;
  if (name === 'href' && !text.startsWith('#')) throw new TypeError('links lead to views of the page');
  element.setAttribute(name, text);
}

function nodes(child: Child): Node[] {
  if (child === false || child === undefined) return [];
  if (child instanceof Node) return [child];
  if (typeof child === 'object') return child.flatMap((one) => nodes(one));
  return [document.createTextNode(visible(String(child)))];
}

/** A text of a user: it does not change the order of the texts around it. */
export function bdi(text: string): HTMLElement {
  return el`<bdi>${text}</bdi>`;
}

/** A text is isolated as in `bdi`. */
export const isolated = (child: Child): Child => (typeof child === 'string' ? bdi(child) : child);

export function link(href: string, text: Child): HTMLElement {
  return el`<a href=${href}>${isolated(text)}</a>`;
}

export const objectLink = (place: Place, text: string): HTMLElement => link(objectAddress(place), text);

/** The form of a state. The word beside it says the same to a screen reader. */
export function glyph(state: keyof typeof LOOK): HTMLElement {
  return el`<span class="glyph ${state}" aria-hidden="true">${LOOK[state].glyph}</span>`;
}

export function table(label: string, head: readonly string[], rows: readonly (readonly Child[])[]): HTMLElement {
  return el`<div class="wide" tabindex="0" role="region" aria-label=${label}><table>
    <caption class="hidden">${label}</caption>
    <thead><tr>${head.map((text) => el`<th scope="col">${text}</th>`)}</tr></thead>
    <tbody>${rows.map((cells) => el`<tr>${cells.map((cell) => el`<td>${isolated(cell)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** The marks of the map with their words. */
export function legend(words: readonly (readonly [State, string, ...unknown[]])[], end: Child = false): HTMLElement {
  const items = words.map(([state, word]) => el`<span><i class="mark ${state}" aria-hidden="true"></i>${word}</span>`);
  return el`<p class="legend">${items}${end}</p>`;
}

/** A button that copies a text, and says so. */
export function copyButton(label: string, text: () => string): HTMLElement {
  const copy = async (): Promise<void> => {
    const copied = navigator.clipboard.writeText(text()).then(() => 'Copied');
    button.textContent = await copied.catch(() => 'Not permitted');
    setTimeout(() => (button.textContent = label), 1500);
  };
  const button = el`<button type="button" click=${() => void copy()}>${label}</button>`;
  return button;
}
