/** Starts the page, and shows the view of the address whenever data or address change. */
import type { PageData, Trouble } from '../data.ts';
import { listAddress, NO_FILTER, routeOf } from './address.ts';
import type { App } from './app.ts';
import { connect, dataInFile, plan } from './connection.ts';
import { bdi, h, link } from './dom.ts';
import { MapView } from './map.ts';
import { modelOf } from './model.ts';
import { problemsOf } from './problems.ts';
import { age } from './text.ts';
import { namespaceView } from './views/namespace.ts';
import { objectView } from './views/object.ts';
import { overview } from './views/overview.ts';
import { PlanView } from './views/plan.ts';
import { problemsView } from './views/problems.ts';
import { tableView } from './views/table.ts';

const VIEWS = [
  ['map', 'Overview'],
  ['problems', 'Problems'],
  ['table', 'Table'],
  ['plan', 'Plan'],
] as const;

class Page {
  readonly #main = h('main', { id: 'main', tabindex: -1 });
  readonly #cluster = h('small');
  readonly #links = VIEWS.map(([view, name]) => ({ view, name, element: link(`#${view}`, name) }));
  readonly #search = h('input', {
    type: 'search',
    'aria-label': 'Search rules, sources, namespaces',
    placeholder: 'Search rules, sources, namespaces  ( / )',
  });
  readonly #live = h('span.live', { role: 'status' });
  readonly #banner = h('div.banner', { role: 'alert' });
  readonly #map = new MapView();
  readonly #plan: PlanView;
  readonly #isFile: boolean;
  #data: PageData | undefined;
  #trouble: Trouble | null = null;
  #shown = '';

  constructor(isFile: boolean) {
    this.#isFile = isFile;
    this.#plan = new PlanView(isFile ? undefined : plan, new MapView());
    document.body.append(
      h(
        'a',
        {
          class: 'skip',
          href: '#main',
          click: (event: Event) => {
            event.preventDefault();
            this.#main.focus();
          },
        },
        'Skip to the content',
      ),
      h(
        'header',
        h('strong', 'Keyferry'),
        this.#cluster,
        h('nav', { 'aria-label': 'Views' }, ...this.#links.map(({ element }) => element)),
        this.#search,
        this.#live,
      ),
      this.#banner,
      this.#main,
    );
    addEventListener('hashchange', () => this.show());
    document.addEventListener('keydown', (event) => this.#onKey(event));
    this.#search.addEventListener('input', () => {
      const route = routeOf(location.hash);
      const view = route.view === 'table' ? 'table' : 'map';
      const before = route.view === 'table' || route.view === 'map' ? route : NO_FILTER;
      history.replaceState(null, '', listAddress(view, { ...before, q: this.#search.value }));
      this.show();
    });
  }

  setData(data: PageData): void {
    // The selection of a reader stays if nothing but the time has changed.
    const isSame =
      this.#data !== undefined && JSON.stringify({ ...data, at: '' }) === JSON.stringify({ ...this.#data, at: '' });
    this.#data = data;
    if (!isSame) this.show();
    this.#showState();
  }

  setTrouble(trouble: Trouble | null): void {
    this.#trouble = trouble;
    this.#showState();
  }

  /** There is no way to the data. */
  lock(): void {
    this.#data = undefined;
    this.#live.textContent = '';
    this.#main.replaceChildren(
      h(
        'div.text',
        h('h1', 'This page has no access'),
        h(
          'p',
          'Its address was used already, or is too old. Press Enter in the terminal where keyferry ui runs, and open the address that it prints.',
        ),
      ),
    );
  }

  show(): void {
    if (this.#data === undefined) return;
    const route = routeOf(location.hash);
    const app: App = {
      model: modelOf(this.#data),
      route,
      now: this.#isFile ? Date.parse(this.#data.at) : Date.now(),
      plan: this.#isFile ? undefined : plan,
    };
    const problems = problemsOf(app.model).length;
    this.#cluster.replaceChildren(bdi(this.#data.cluster));
    for (const { view, name, element } of this.#links) {
      if (view === route.view) element.setAttribute('aria-current', 'page');
      else element.removeAttribute('aria-current');
      if (view === 'problems') element.replaceChildren(name, ...(problems > 0 ? [' ', h('b', String(problems))] : []));
    }
    if (document.activeElement !== this.#search) this.#search.value = 'q' in route ? route.q : '';
    const { kept, restore } = this.#keep();
    this.#main.replaceChildren(...this.#view(app));
    this.#main.classList.toggle('fill', route.view === 'map');
    document.title = `${this.#main.querySelector('h1')?.textContent ?? ''} · Keyferry`;
    if (kept === location.hash) restore();
    else if (this.#shown !== '' && this.#shown.split('/')[0] !== location.hash.split('/')[0]) this.#main.scrollTop = 0;
    this.#shown = location.hash;
  }

  #view(app: App): HTMLElement[] {
    const { route } = app;
    switch (route.view) {
      case 'problems':
        return problemsView(app);
      case 'table':
        return tableView(app, route);
      case 'plan':
        return [this.#plan.element];
      case 'ns':
        return namespaceView(app, route.name);
      case 'object':
        return objectView(app, route, this.#map);
      case 'map':
        return overview(app, route, this.#map);
      default:
        return route satisfies never;
    }
  }

  /** New data must not move the view or the focus. */
  #keep(): { kept: string; restore: () => void } {
    const [top, mapTop] = [this.#main.scrollTop, this.#map.scrollTop];
    const focused = document.activeElement;
    const isMap = focused?.classList.contains('scroll') === true;
    const href =
      focused instanceof HTMLAnchorElement && this.#main.contains(focused) ? focused.getAttribute('href') : null;
    return {
      kept: this.#shown,
      restore: () => {
        this.#main.scrollTop = top;
        this.#map.scrollTo(mapTop);
        const again = isMap
          ? this.#main.querySelector<HTMLElement>('.scroll')
          : [...this.#main.querySelectorAll('a')].find((one) => href !== null && one.getAttribute('href') === href);
        again?.focus({ preventScroll: true });
      },
    };
  }

  #showState(): void {
    const time = (iso: string): string => new Date(iso).toLocaleTimeString('en-GB');
    const at = this.#data?.at ?? '';
    const trouble = this.#trouble;
    const text = this.#isFile
      ? `report of ${at}`
      : trouble === null
        ? `● live · ${time(at)}`
        : `✕ not connected since ${time(trouble.since)}`;
    this.#live.replaceChildren(text);
    this.#live.classList.toggle('bad', trouble !== null);
    const old = this.#data === undefined ? '' : ` The page shows the state of ${time(at)}, ${age(at, Date.now())} ago.`;
    this.#banner.replaceChildren(...(trouble === null ? [] : [h('p', '✕ ', bdi(trouble.message), old)]));
  }

  #onKey(event: KeyboardEvent): void {
    const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    if (event.key === 'Escape' && event.target === this.#search) {
      this.#search.value = '';
      this.#search.dispatchEvent(new Event('input'));
    }
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/') {
      event.preventDefault();
      this.#search.focus();
    }
    if (event.key === 'n' || event.key === 'p') {
      const all = [...this.#main.querySelectorAll<HTMLElement>('.problem h2 a')];
      const at = all.findIndex((one) => one === document.activeElement);
      all[Math.max(0, Math.min(all.length - 1, at + (event.key === 'n' ? 1 : -1)))]?.focus();
    }
  }
}

async function start(): Promise<void> {
  const data = await dataInFile();
  const page = new Page(data !== undefined);
  if (data !== undefined) return page.setData(data);
  return await connect({
    onData: (next) => page.setData(next),
    onTrouble: (trouble) => page.setTrouble(trouble),
    onLocked: () => page.lock(),
  });
}

void start();
