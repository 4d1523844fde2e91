/** Makes elements. Every text is a text node with its unseen characters spelled out; the page makes no HTML from text. */
import { LOOK, type State } from './states.ts';
import { visible } from './text.ts';

export type Child = Node | string | number | false | null | undefined;
type Attribute = string | number | boolean | undefined | ((event: never) => unknown);

type Attributes = Readonly<Record<string, Attribute>>;
type TagOf<Spec extends string> = (Spec extends `${infer Tag}.${string}` ? Tag : Spec) & keyof HTMLElementTagNameMap;

/**
 * @param spec tag and classes: `p.filter`
 * @param rest may begin with attributes: a function is a listener; `true` an attribute without value; `false` and
 *   `undefined` none. A link leads to a view of this page and nowhere else. Then the children
 */
export function h<Spec extends string>(
  spec: Spec,
  ...rest: readonly [Attributes, ...Child[]] | readonly Child[]
): HTMLElementTagNameMap[TagOf<Spec>] {
  const [tag = '', ...classes] = spec.split('.');
  const element = document.createElement(tag as TagOf<Spec>);
  if (classes.length > 0) element.className = classes.join(' ');
  const [first, ...others] = rest;
  const isAttributes = typeof first === 'object' && first !== null && !(first instanceof Node);
  for (const [name, value] of isAttributes ? Object.entries(first) : []) {
    if (value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value as EventListener);
    else if (name === 'href' && !String(value).startsWith('#')) throw new TypeError('links lead to views of the page');
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...nodes((isAttributes ? others : rest) as readonly Child[]));
  return element;
}

export function nodes(children: readonly Child[]): Node[] {
  return children.flatMap((child) => {
    if (child === false || child === null || child === undefined) return [];
    return [child instanceof Node ? child : document.createTextNode(visible(String(child)))];
  });
}

/** A text of a user: it does not change the order of the texts around it. */
export function bdi(text: string): HTMLElement {
  return h('bdi', text);
}

export function link(href: string, ...children: readonly Child[]): HTMLAnchorElement {
  return h('a', { href }, ...children);
}

/** The form of a state. The word beside it says the same to a screen reader. */
export function glyphOf(state: State): HTMLElement {
  return h('span', { class: `glyph ${state}`, 'aria-hidden': 'true' }, LOOK[state].glyph);
}

/** A button that copies a text, and says so. */
export function copyButton(label: string, text: () => string): HTMLButtonElement {
  const button = h('button', { type: 'button', click: () => void copied() }, label);
  const copied = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Not permitted';
    }
    setTimeout(() => (button.textContent = label), 1500);
  };
  return button;
}
