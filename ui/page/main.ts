/** Starts the page, and shows the view of the address whenever data or address change. */
import type { PageData, Trouble } from '../data.ts';
import { listAddress, routeOf } from './address.ts';
import type { App } from './app.ts';
import { connect, dataInFile, plan } from './connection.ts';
import { bdi, type Child, copyButton, el, link } from './dom.ts';
import { focusOn, MapView } from './map.ts';
import { markdownOf } from './markdown.ts';
import { modelOf } from './model.ts';
import { problemsOf } from './problems.ts';
import { age } from './text.ts';
import { namespaceView } from './views/namespace.ts';
import { objectView } from './views/object.ts';
import { overview } from './views/overview.ts';
import { planView } from './views/plan.ts';
import { problemsView } from './views/problems.ts';
import { tableView } from './views/table.ts';

const VIEWS = { map: 'Overview', problems: 'Problems', table: 'Table', plan: 'Plan' } as const;

class Page {
  readonly #main = el`<main id="main" tabindex="-1"></main>`;
  readonly #cluster = el`<small></small>`;
  readonly #links = Object.entries(VIEWS).map(([view, name]) => ({ view, element: link(`#${view}`, name) }));
  readonly #problems = el`<b></b>`;
  readonly #search = el`<input type="search" aria-label="Search rules, sources, namespaces"
    placeholder="Search rules, sources, namespaces  ( / )" input=${() => this.#onSearch()}>` as HTMLInputElement;
  readonly #live = el`<span class="live" role="status"></span>`;
  readonly #banner = el`<div class="banner" role="alert"></div>`;
  readonly #map = new MapView();
  readonly #plan: HTMLElement;
  readonly #isFile: boolean;
  #data: PageData | undefined;
  #trouble: Trouble | null = null;
  #shown = '';

  constructor(isFile: boolean) {
    this.#isFile = isFile;
    this.#plan = planView(isFile ? undefined : plan);
    this.#links[1]?.element.append(' ', this.#problems);
    const skip = (event: Event): void => {
      event.preventDefault();
      this.#main.focus();
    };
    const copied = (): string => `Keyferry, ${this.#data?.cluster}, ${this.#data?.at}\n\n${markdownOf(this.#main)}`;
    document.body.append(
      el`<a class="skip" href="#main" click=${skip}>Skip to the content</a>`,
      el`<header><strong>Keyferry</strong>${this.#cluster}
        <nav aria-label="Views">${this.#links.map(({ element }) => element)}</nav>
        ${this.#search}${copyButton('Copy as text', copied)}${this.#live}</header>`,
      this.#banner,
      this.#main,
    );
    addEventListener('hashchange', () => this.show());
    document.addEventListener('keydown', (event) => this.#onKey(event));
  }

  /** @param isSame nothing but the time has changed, so the selection of a reader stays */
  setData(data: PageData, isSame = false): void {
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
      el`<div class="text"><h1>This page has no access</h1><p>Its address was used already, or is too old. Press Enter in
        the terminal where keyferry ui runs, and open the address that it prints.</p></div>`,
    );
  }

  show(): void {
    if (this.#data === undefined) return;
    const route = routeOf(location.hash);
    const model = modelOf(this.#data);
    const problems = problemsOf(model).length;
    this.#cluster.replaceChildren(bdi(this.#data.cluster));
    this.#problems.textContent = problems === 0 ? '' : String(problems);
    for (const { view, element } of this.#links)
      if (view === route.view) element.setAttribute('aria-current', 'page');
      else element.removeAttribute('aria-current');
    if (document.activeElement !== this.#search) this.#search.value = 'q' in route ? route.q : '';
    const now = this.#isFile ? Date.parse(this.#data.at) : Date.now();
    const children = this.#view({ model, now, map: this.#map });
    const isFull = route.view === 'map';
    const restore = this.#kept();
    const view = el`<div class=${isFull ? 'full' : 'text'}>${children}</div>`;
    this.#main.replaceChildren(view);
    document.title = `${view.querySelector('h1')?.textContent ?? ''} · Keyferry`;
    if (this.#shown === location.hash) restore();
    else if (this.#shown.split('/')[0] !== location.hash.split('/')[0]) this.#main.scrollTop = 0;
    this.#shown = location.hash;
  }

  #view(app: App): Child {
    const route = routeOf(location.hash);
    if (route.view === 'problems') return problemsView(app);
    if (route.view === 'table') return tableView(app, route);
    if (route.view === 'plan') return this.#plan;
    if (route.view === 'ns') return namespaceView(app, route.name);
    return route.view === 'o' ? objectView(app, route) : overview(app, route);
  }

  /** New data must not move the view or the focus. @returns what puts both back */
  #kept(): () => void {
    const [top, mapTop, focused] = [this.#main.scrollTop, this.#map.scrollTop, document.activeElement];
    const href = this.#main.contains(focused) ? focused?.getAttribute('href') : null;
    return () => {
      this.#main.scrollTop = top;
      this.#map.scrollTop = mapTop;
      if (typeof href === 'string') focusOn(this.#main, href);
      else if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
    };
  }

  #showState(): void {
    const time = (iso: string): string => new Date(iso).toLocaleTimeString('en-GB');
    const [at, trouble] = [this.#data?.at ?? '', this.#trouble];
    const live = trouble === null ? `● live · ${time(at)}` : `✕ not connected since ${time(trouble.since)}`;
    this.#live.textContent = this.#isFile ? `report of ${at}` : live;
    this.#live.classList.toggle('bad', trouble !== null);
    const old = this.#data === undefined ? '' : ` The page shows the state of ${time(at)}, ${age(at, Date.now())} ago.`;
    this.#banner.replaceChildren(trouble === null ? '' : el`<p>✕ ${bdi(trouble.message)}${old}</p>`);
  }

  #onSearch(): void {
    const route = routeOf(location.hash);
    const address = listAddress(route.view === 'table' ? 'table' : 'map', {
      ...('q' in route && route),
      q: this.#search.value,
      from: 0,
    });
    history.replaceState(null, '', address);
    this.show();
  }

  #onKey(event: KeyboardEvent): void {
    if (event.key === 'Escape' && event.target === this.#search) {
      this.#search.value = '';
      this.#onSearch();
    }
    const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/') {
      event.preventDefault();
      this.#search.focus();
    }
    const step = event.key === 'n' ? 1 : event.key === 'p' ? -1 : 0;
    if (step === 0) return;
    const all = [...this.#main.querySelectorAll<HTMLElement>('.problem h2 a')];
    const at = all.findIndex((one) => one === document.activeElement) + step;
    all[Math.max(0, Math.min(all.length - 1, at))]?.focus();
  }
}

async function start(): Promise<void> {
  const data = await dataInFile();
  const page = new Page(data !== undefined);
  if (data !== undefined) return page.setData(data);
  return await connect({
    onData: (next, isSame) => page.setData(next, isSame),
    onTrouble: (trouble) => page.setTrouble(trouble),
    onLocked: () => page.lock(),
  });
}

void start();
