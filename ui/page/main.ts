/** Starts the page, and shows the view of the address whenever data or address change. */
import { listAddress, type Route, routeOf } from './address.ts';
import { dataInFile, follow, type Known, plan } from './connection.ts';
import { bdi, type Child, copyButton, el, link } from './dom.ts';
import { focusOn, MapView } from './map.ts';
import { markdownOf } from './markdown.ts';
import { type Model, modelOf } from './model.ts';
import { problemsOf } from './problems.ts';
import { objectView } from './views/object.ts';
import { overview, problemsView } from './views/overview.ts';
import { planView } from './views/plan.ts';
import { namespaceView, tableView } from './views/table.ts';

type View = (model: Model, route: Route, map: MapView) => Child;

const NAMES = { map: 'Overview', problems: 'Problems', table: 'Table', plan: 'Plan' } as const;
const timeOf = (iso: string): string => new Date(iso).toLocaleTimeString('en-GB');

class Page {
  readonly #main = el`<main id="main" tabindex="-1"></main>`;
  readonly #cluster = el`<small></small>`;
  readonly #problems = el`<b></b>`;
  readonly #links = Object.entries(NAMES).map(([view, name]) =>
    link(`#${view}`, view === 'problems' ? [`${name} `, this.#problems] : name),
  );
  readonly #search = el`<input type="search" aria-label="Search rules, sources, namespaces"
    placeholder="Search rules, sources, namespaces  ( / )" input=${() => this.#onSearch()}>` as HTMLInputElement;
  readonly #live = el`<span class="live" role="status"></span>`;
  readonly #banner = el`<div class="banner" role="alert"></div>`;
  readonly #map = new MapView();
  readonly #views: Readonly<Record<Route['view'], View>>;
  readonly #isFile: boolean;
  #known: Known = { data: undefined, trouble: null, isSame: false };
  /** The address of the view that is shown. */
  #shown = '';

  constructor(isFile: boolean) {
    this.#isFile = isFile;
    // The manifests stay while other views are shown.
    const planned = planView(isFile ? undefined : plan);
    const views = { map: overview, problems: problemsView, table: tableView, ns: namespaceView, o: objectView };
    this.#views = { ...views, plan: () => planned };
    const skip = (event: Event): void => {
      event.preventDefault();
      this.#main.focus();
    };
    const text = (): string => {
      const { cluster, at } = this.#known.data ?? {};
      return `Keyferry, ${cluster}, ${at}\n\n${markdownOf(this.#main)}`;
    };
    document.body.append(
      el`<a class="skip" href="#main" click=${skip}>Skip to the content</a>`,
      el`<header><strong>Keyferry</strong>${this.#cluster}<nav aria-label="Views">${this.#links}</nav>
        ${this.#search}${copyButton('Copy as text', text)}${this.#live}</header>`,
      this.#banner,
      this.#main,
    );
    addEventListener('hashchange', () => (location.hash.startsWith('#code=') ? location.reload() : this.#show()));
    document.addEventListener('keydown', (event) => this.#onKey(event));
  }

  set(known: Known): void {
    const told = this.#known.trouble?.message;
    this.#known = known;
    // If nothing has changed, the selection of a reader stays.
    if (!known.isSame) this.#show();
    const { data: { at } = { at: '' }, trouble } = known;
    const live = trouble === null ? `● live · ${timeOf(at)}` : `✕ not connected since ${timeOf(trouble.since)}`;
    this.#live.textContent = this.#isFile ? `report of ${at}` : live;
    this.#live.classList.toggle('bad', trouble !== null);
    // A screen reader reads the banner whenever it is written.
    if (trouble?.message === told) return;
    const old = at === '' ? '' : ` The page shows the state of ${timeOf(at)}.`;
    this.#banner.replaceChildren(trouble === null ? '' : el`<p>✕ ${bdi(trouble.message)}${old}</p>`);
  }

  #show(): void {
    const { data } = this.#known;
    if (data === undefined) return;
    const [model, route, { hash }] = [modelOf(data), routeOf(location.hash), location];
    const problems = problemsOf(model).length;
    this.#cluster.replaceChildren(bdi(data.cluster));
    this.#problems.textContent = problems === 0 ? '' : String(problems);
    for (const one of this.#links) one.ariaCurrent = one.getAttribute('href') === `#${route.view}` ? 'page' : null;
    if (document.activeElement !== this.#search) this.#search.value = route.q;
    // New data must not move the view or the focus.
    const { scroll } = this.#map;
    const [top, mapTop, focused] = [this.#main.scrollTop, scroll.scrollTop, document.activeElement];
    const href = this.#main.contains(focused) ? focused?.getAttribute('href') : null;
    const shown = this.#views[route.view](model, route, this.#map);
    const view = el`<div class=${route.view === 'map' ? 'full' : 'text'}>${shown}</div>`;
    this.#main.replaceChildren(view);
    // A chain of copies may be longer than the window is wide.
    view.querySelector('.chosen')?.scrollIntoView({ block: 'nearest', inline: 'center' });
    document.title = `${view.querySelector('h1')?.textContent ?? ''} · Keyferry`;
    if (this.#shown === hash) {
      this.#main.scrollTop = top;
      scroll.scrollTop = mapTop;
      if (typeof href === 'string') focusOn(this.#main, href);
      else if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
    } else if (this.#shown.split('/')[0] !== hash.split('/')[0]) this.#main.scrollTop = 0;
    this.#shown = hash;
  }

  #onSearch(): void {
    const route = routeOf(location.hash);
    const view = route.view === 'table' ? 'table' : 'map';
    history.replaceState(null, '', listAddress(view, { ...route, q: this.#search.value }));
    this.#show();
  }

  #onKey(event: KeyboardEvent): void {
    if (event.key === 'Escape' && routeOf(location.hash).q !== '') {
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
  if (data !== undefined) return page.set({ data, trouble: null, isSame: false });
  for await (const known of follow()) page.set(known);
}

void start();
