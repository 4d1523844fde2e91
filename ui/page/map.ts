/**
 * The map: rules are lines, namespaces are columns, copies are marks. The marks are drawn on a canvas, and only for the
 * lines in view; the lines themselves are elements with text and links. The canvas says nothing to a screen reader: each
 * line has its counts, the cursor's sentence is read aloud, and the table has everything.
 */
import { objectAddress, type Route } from './address.ts';
import { bdi, el, glyph, link } from './dom.ts';
import { alikeColumns, type Line, linesOf } from './map-lines.ts';
import { columnOf, type Row } from './model.ts';
import { byState, copies, count, LOOK, number, type State, STATES, why } from './words.ts';

export interface MapInput {
  readonly rows: readonly Row[];
  readonly columns: readonly string[];
  readonly order?: Route['order'];
  /** The folds that are open; `undefined`: nothing is folded. */
  readonly open?: readonly string[] | undefined;
  /** The address of this view with another order or other folds; `undefined`: it has no such address. */
  readonly addressOf?: (change: Partial<Route>) => string;
  /** The words of a mark, for a plan; default: those of the state. */
  readonly words?: ReadonlyMap<State, string>;
}

/** A line and a column. */
type Cell = readonly [number, number];

const MIN_COLUMN = 1.4;
const MAX_COLUMN = 18;
/** From this width on, every column has its name. */
const NAMED_COLUMN = 13;
/** Below this width, neighbours with the same mark are one rectangle. */
const WIDE_COLUMN = 4;
const FLASH_MS = 1000;
const PHONE = matchMedia('(max-width: 640px)');
const STILL = matchMedia('(prefers-reduced-motion: reduce)');
const DARK = matchMedia('(prefers-color-scheme: dark)');
/** Custom properties of the style. */
const COLOURS = [...STATES, 'ground', 'soft', 'cross', 'accent'];
/** By how many lines and columns a key moves the cursor. */
const MOVES = new Map<string, readonly [number, number]>([
  ['ArrowUp', [-1, 0]],
  ['ArrowDown', [1, 0]],
  ['ArrowLeft', [0, -1]],
  ['ArrowRight', [0, 1]],
  ['Home', [0, -Infinity]],
  ['End', [0, Infinity]],
]);

export class MapView {
  readonly #canvas = el`<canvas aria-hidden="true"></canvas>` as HTMLCanvasElement;
  readonly #axis = el`<canvas class="axis" aria-hidden="true"></canvas>` as HTMLCanvasElement;
  readonly #sheet = el`<div class="sheet">${this.#canvas}</div>`;
  readonly #over = el`<span class="over" aria-hidden="true"></span>`;
  readonly #corner = el`<div class="corner"></div>`;
  readonly #sentence = el`<p class="sentence" aria-live="polite"></p>`;
  readonly scroll = el`<div class="scroll" tabindex="0" role="group"
    aria-label="Map of rules and namespaces. Arrows move, Enter opens."
    scroll=${() => this.#draw()} keydown=${(event: KeyboardEvent) => this.#onKey(event)}
    pointermove=${(event: PointerEvent) => event.pointerType !== 'touch' && this.#setCursor(this.#at(event))}
    pointerleave=${() => this.#setCursor(undefined)} click=${(event: MouseEvent) => this.#onClick(event)}
    >${this.#sheet}</div>`;
  readonly element = el`<section class="map" aria-label="Map">
    <div class="top">${this.#corner}${this.#axis}${this.#over}</div>${this.scroll}${this.#sentence}
  </section>`;
  #input: MapInput = { rows: [], columns: [] };
  #lines: readonly Line[] = [];
  #columns: readonly string[] = [];
  #cursor: Cell | undefined;
  /** The cells of each row before the last change, for a second: marks that differ from them flash. */
  #before: ReadonlyMap<string, Row['cells']> = new Map();
  #flash = 0;
  #frame = 0;
  /** Which lines are elements now; '': all must be drawn anew. */
  #placed = '';
  #columnWidth = MAX_COLUMN;
  #colours: ReadonlyMap<string, string> = new Map();

  constructor() {
    const redraw = (): void => {
      const style = getComputedStyle(document.documentElement);
      this.#colours = new Map(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`)]));
      this.#placed = '';
      this.#draw();
    };
    redraw();
    new ResizeObserver(redraw).observe(this.scroll);
    DARK.addEventListener('change', redraw);
  }

  set(input: MapInput): void {
    this.#before = new Map(STILL.matches ? [] : this.#input.rows.map(({ rule, cells }) => [rule.id, cells]));
    clearTimeout(this.#flash);
    this.#flash = setTimeout(() => {
      this.#before = new Map();
      this.#draw();
    }, FLASH_MS);
    this.#input = input;
    const isAlike = input.order === 'alike';
    this.#lines = linesOf(input.rows, input.open);
    this.#columns = isAlike ? alikeColumns(input.columns, input.rows) : input.columns;
    this.#setCursor(undefined);
    this.#placed = '';
    const href = input.addressOf?.({ order: isAlike ? 'name' : 'alike' });
    const order = href === undefined ? '' : link(href, isAlike ? 'alike together ⇄' : 'by name ⇄');
    this.#corner.replaceChildren(`${count(this.#columns.length, 'namespace')} `, order);
    this.#draw();
  }

  /** Draws in the next frame. */
  #draw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#paint());
  }

  get #lineHeight(): number {
    return PHONE.matches ? 52 : 24;
  }

  /** Reads sizes first and writes then: so there is one layout for each frame. */
  #paint(): void {
    const [view, room, { scrollTop }] = [this.scroll.clientHeight, this.#canvas.clientWidth, this.scroll];
    const height = this.#lineHeight;
    const width = Math.max(MIN_COLUMN, Math.min(MAX_COLUMN, room / Math.max(1, this.#columns.length)));
    this.#columnWidth = width;
    const first = Math.max(0, Math.floor(scrollTop / height));
    const shown = this.#lines.slice(first, first + Math.ceil(view / height) + 1);
    const placed = `${first} ${shown.length} ${height}`;
    if (this.#placed === '') this.#drawAxis(room, width);
    if (placed !== this.#placed) this.#placeLines(shown, first, height);
    this.#placed = placed;
    this.#sheet.style.height = `${this.#lines.length * height}px`;
    const context = sized(this.#canvas, room, Math.min(view, this.#lines.length * height));
    for (const [at, line] of shown.entries())
      this.#drawLine(context, line, (first + at) * height - scrollTop, height, width);
    if (this.#cursor === undefined) return;
    context.fillStyle = this.#colour('cross');
    const [line, column] = this.#cursor;
    context.fillRect(0, line * height - scrollTop, room, height);
    context.fillRect(column * width, 0, Math.max(width, 1), view);
  }

  /** The elements of the lines in view. */
  #placeLines(lines: readonly Line[], first: number, height: number): void {
    const focus = document.activeElement?.getAttribute('href');
    const elements = lines.map((line, at) => {
      const element = lineElement(line, this.#input);
      element.style.top = `${(first + at) * height}px`;
      return element;
    });
    this.#sheet.replaceChildren(this.#canvas, ...elements);
    if (typeof focus === 'string') focusOn(this.#sheet, focus);
  }

  #drawLine(context: CanvasRenderingContext2D, line: Line, top: number, height: number, width: number): void {
    if (line.type === 'head') return;
    const [room, offset] = PHONE.matches ? [22, 27] : [height - 2, 1];
    const gap = width >= WIDE_COLUMN ? 1 : 0;
    const rect = (from: number, to: number, share: number, colour: string): void => {
      const tall = Math.max(2, room * share);
      context.fillStyle = this.#colour(colour);
      context.fillRect(from * width, top + offset + (room - tall) / 2, Math.max((to - from) * width - gap, 1), tall);
    };
    if (line.type === 'fold') {
      const most = Math.max(1, ...line.cells.values());
      for (const [from, to, made] of this.#runs(line.cells, width)) rect(from, to, 0.15 + (0.35 * made) / most, 'ok');
      return;
    }
    const { rule, cells } = line.row;
    const runs = [...this.#runs(cells, width)];
    // What is wrong is drawn last, at least 2 px wide.
    for (const [from, to, state] of runs.toSorted(([, , a], [, , b]) => byState(b, a))) {
      rect(from, state === 'bad' ? Math.max(to, from + 2 / width) : to, LOOK[state].height, state);
      // Waiting is two thin bars: the middle is taken out.
      if (state === 'waiting') rect(from, to, 0.18, 'ground');
    }
    const before = this.#before.get(rule.id) ?? cells;
    if (before === cells) return;
    for (const [at, name] of this.#columns.entries())
      if (before.get(name) !== cells.get(name)) rect(at, at + Math.max(1, 3 / width), 1, 'accent');
  }

  /** Neighbours with the same mark, which are one rectangle if the columns are narrow. */
  *#runs<Mark>(cells: ReadonlyMap<string, Mark>, width: number): Iterable<readonly [number, number, Mark]> {
    let from = 0;
    let mark = cells.get(this.#columns[0] ?? '');
    for (let at = 1; at <= this.#columns.length; at += 1) {
      const next = cells.get(this.#columns[at] ?? '');
      if (width < WIDE_COLUMN && next === mark && at < this.#columns.length) continue;
      if (mark !== undefined) yield [from, at, mark];
      [from, mark] = [at, next];
    }
  }

  /** Names, or what neighbours begin with. */
  #drawAxis(room: number, width: number): void {
    const isNamed = width >= NAMED_COLUMN;
    this.element.classList.toggle('named', isNamed);
    const bottom = isNamed ? 104 : 28;
    const context = sized(this.#axis, room, bottom);
    context.font = '11px system-ui, sans-serif';
    context.fillStyle = this.#colour('soft');
    let free = 0;
    let before = '';
    for (const [at, name] of this.#columns.entries()) {
      const [prefix = ''] = name.split('-');
      if (isNamed) {
        context.save();
        context.translate(at * width + width / 2, bottom - 3);
        context.rotate(-Math.PI / 3);
        context.fillText(name.length > 20 ? `${name.slice(0, 19)}…` : name, 0, 4);
        context.restore();
      } else if (this.#input.order !== 'alike' && prefix !== before && at * width >= free) {
        context.fillRect(at * width, bottom - 10, 1, 10);
        context.fillText(prefix, at * width + 4, bottom - 3);
        free = at * width + context.measureText(prefix).width + 12;
      }
      before = prefix;
    }
  }

  #colour(name: string): string {
    return this.#colours.get(name) ?? '';
  }

  #setCursor(cursor: Cell | undefined): void {
    if (String(this.#cursor) === String(cursor)) return;
    this.#cursor = cursor;
    const [, column = 0] = cursor ?? [];
    this.#sentence.replaceChildren(cursor === undefined ? '' : this.#words(cursor));
    // The name of the column stands above it.
    this.#over.replaceChildren(bdi(cursor === undefined ? '' : (this.#columns[column] ?? '')));
    const left = Math.min(column * this.#columnWidth, this.#axis.clientWidth - this.#over.offsetWidth);
    this.#over.style.left = `${this.#axis.offsetLeft + left}px`;
    this.#draw();
  }

  #words([at, column]: Cell): HTMLElement {
    const line = this.#lines[at] ?? { type: 'head', text: '', rules: 0 };
    const name = this.#columns[column] ?? '';
    if (line.type === 'head') return el`<span>${bdi(line.text)}: ${count(line.rules, 'rule')}</span>`;
    if (line.type === 'fold')
      return el`<span>${bdi(name)}: ${copies(line.cells.get(name) ?? 0)} of ${line.text}</span>`;
    const state = line.row.cells.get(name);
    const target = line.row.targets.find((one) => columnOf(one) === name && one.state === state);
    const word = state === undefined ? 'no copy' : (this.#input.words?.get(state) ?? LOOK[state].word);
    const reason = target === undefined || target.reason === '' ? '' : ` (${why(target)})`;
    return el`<span>${bdi(line.row.title)} in ${bdi(name)}: ${word}${bdi(reason)}</span>`;
  }

  #at(event: MouseEvent): Cell | undefined {
    const box = this.#canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.#columnWidth);
    // The canvas stays in view while the sheet scrolls.
    const line = Math.floor((event.clientY - box.top + this.scroll.scrollTop) / this.#lineHeight);
    const isInside = column >= 0 && column < this.#columns.length && line >= 0 && line < this.#lines.length;
    return isInside ? [line, column] : undefined;
  }

  #onClick(event: MouseEvent): void {
    const at = event.target instanceof Element && event.target.closest('a') !== null ? undefined : this.#at(event);
    if (at !== undefined) this.#openAt(at);
  }

  #openAt([at, column]: Cell): void {
    const line = this.#lines[at];
    if (line?.type === 'fold') location.hash = this.#input.addressOf?.({ open: line.next }) ?? '';
    if (line?.type !== 'rule') return;
    const { targets, rule } = line.row;
    const target = targets.find((one) => columnOf(one) === this.#columns[column] && one.state !== 'refused');
    location.hash = objectAddress(target ?? rule);
  }

  #onKey(event: KeyboardEvent): void {
    if (event.target !== this.scroll) return;
    if (event.key === 'Enter' && this.#cursor !== undefined) this.#openAt(this.#cursor);
    const move = MOVES.get(event.key);
    if (move === undefined) return;
    event.preventDefault();
    const [line, column] = this.#cursor ?? [-move[0], -move[1]];
    const within = (value: number, count: number): number => Math.max(0, Math.min(count - 1, value));
    const next = within(line + move[0], this.#lines.length);
    const [top, height] = [next * this.#lineHeight, this.#lineHeight];
    const { scrollTop, clientHeight } = this.scroll;
    this.scroll.scrollTop = Math.max(Math.min(scrollTop, top), top + height - clientHeight);
    this.#setCursor([next, within(column + move[1], this.#columns.length)]);
  }
}

function lineElement(line: Line, { addressOf }: MapInput): HTMLElement {
  if (line.type === 'head')
    return el`<div class="line head">${bdi(line.text)}<span class="number">${count(line.rules, 'rule')}</span></div>`;
  if (line.type === 'fold') {
    const own = link(addressOf?.({ open: line.next }) ?? '#', line.text);
    return el`<div class="line fold"><span class="glyph">${line.isOpen ? '▾' : '▸'}</span>${own}</div>`;
  }
  const { rule, state, counts, remark } = line.row;
  const remarks = [line.isInGroup ? '' : rule.namespace, remark].filter(Boolean).join(' · ');
  const worst = (['bad', 'waiting', 'pending', 'refused'] as const).find((one) => counts.has(one));
  const { glyph: sign, word } = LOOK[worst ?? 'ok'];
  const wrong = worst && el`<span class=${worst} title=${word}>${number(counts.get(worst) ?? 0)} ${sign}</span>`;
  return el`<div class="line">${glyph(state)}
    <a class="name" href=${objectAddress(rule)}>${bdi(rule.name)}<small> ${bdi(remarks)}</small></a>
    <span class="number">${wrong} ${number(counts.get('ok') ?? 0)}</span>
  </div>`;
}

/** Gives the link with this address the focus again, after its element was made anew. */
export function focusOn(place: ParentNode, address: string): void {
  const links = [...place.querySelectorAll('a')];
  links.find((one) => one.getAttribute('href') === address)?.focus({ preventScroll: true });
}

/** An empty canvas of this size, in pixels of the page. */
function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = devicePixelRatio;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  context.scale(ratio, ratio);
  return context;
}
