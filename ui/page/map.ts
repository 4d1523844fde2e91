/**
 * The map: rules are lines, namespaces are columns, copies are marks. The marks are drawn on a canvas, and only for the
 * lines in view; the lines themselves are elements with text and links. The canvas says nothing to a screen reader: each
 * line has its counts, the cursor's sentence is read aloud, and the table has everything.
 */
import { objectAddress } from './address.ts';
import { bdi, h, link } from './dom.ts';
import { alikeColumns, linesOf, type Line } from './map-lines.ts';
import type { Part, Row } from './model.ts';
import { LOOK, type State } from './states.ts';
import { count } from './text.ts';

export interface MapInput extends Part {
  readonly order: 'name' | 'alike';
  /** `undefined`: nothing is folded. */
  readonly open: readonly string[] | undefined;
  /** The address of this view with the other order. */
  readonly otherOrder: string;
  readonly foldAddress: (key: string) => string;
  /** The words of a mark, for a plan; default: those of the state. */
  readonly words?: Partial<Readonly<Record<State, string>>>;
}

const MIN_COLUMN = 1.4;
const MAX_COLUMN = 18;
/** From this width on, every column has its name. */
const NAMED_COLUMN = 13;
const FLASH_MS = 1000;
const PHONE = matchMedia('(max-width: 640px)');
const STILL = matchMedia('(prefers-reduced-motion: reduce)');
/** Height of a mark, as a share of the line. */
const HEIGHT: Readonly<Record<State, number>> = {
  ok: 0.36,
  pending: 0.55,
  waiting: 0.5,
  bad: 0.86,
  refused: 0.1,
  unknown: 0.1,
};

export class MapView {
  readonly element: HTMLElement;
  readonly #sheet = h('div.sheet');
  readonly #canvas = h('canvas', { 'aria-hidden': 'true' });
  readonly #axis = h('canvas', { 'aria-hidden': 'true', class: 'axis' });
  readonly #corner = h('div.corner');
  readonly #sentence = h('p.sentence', { 'aria-live': 'polite' });
  readonly #scroll: HTMLElement;
  #input: MapInput = { rows: [], columns: [], order: 'name', open: [], otherOrder: '#', foldAddress: () => '#' };
  #lines: readonly Line[] = [];
  #columns: readonly string[] = [];
  #cursor: { line: number; column: number } | undefined;
  #cells = new Map<string, ReadonlyMap<string, State>>();
  readonly #flashes = new Map<string, number>();
  #frame = 0;
  /** Which lines are elements now. */
  #placed = '';
  #colours: CSSStyleDeclaration | undefined;

  constructor() {
    this.#scroll = h(
      'div',
      {
        class: 'scroll',
        tabindex: 0,
        role: 'group',
        'aria-label': 'Map of rules and namespaces. Arrows move, Enter opens.',
      },
      this.#sheet,
    );
    this.#sheet.append(this.#canvas);
    this.element = h(
      'section.map',
      { 'aria-label': 'Map' },
      h('div.top', this.#corner, this.#axis),
      this.#scroll,
      this.#sentence,
    );
    this.#scroll.addEventListener('scroll', () => this.draw());
    this.#scroll.addEventListener('pointermove', (event) => this.#onPointer(event));
    this.#scroll.addEventListener('pointerleave', () => this.#setCursor(undefined));
    this.#scroll.addEventListener('click', (event) => this.#onClick(event));
    this.#scroll.addEventListener('keydown', (event) => this.#onKey(event));
    new ResizeObserver(() => this.draw()).observe(this.#scroll);
  }

  get scrollTop(): number {
    return this.#scroll.scrollTop;
  }

  set(input: MapInput): void {
    this.#input = input;
    this.#lines = linesOf(input.rows, input.open);
    this.#columns = input.order === 'alike' ? alikeColumns(input.columns, input.rows) : input.columns;
    this.#cursor = undefined;
    this.#placed = '';
    this.#findChanges(input.rows);
    const other = input.order === 'alike' ? 'alike together ⇄' : 'by name ⇄';
    this.#corner.replaceChildren(`${count(this.#columns.length, 'namespace')} `, link(input.otherOrder, other));
    this.draw();
  }

  scrollTo(top: number): void {
    this.#scroll.scrollTop = top;
  }

  /** Draws in the next frame. */
  draw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  /** Marks that changed since the last data flash once. */
  #findChanges(rows: readonly Row[]): void {
    const now = performance.now();
    for (const { rule, cells } of STILL.matches ? [] : rows) {
      const before = this.#cells.get(rule.id);
      if (before === undefined || before === cells) continue;
      for (const [name, state] of cells)
        if (before.get(name) !== state) this.#flashes.set(`${rule.id} ${name}`, now + FLASH_MS);
    }
    this.#cells = new Map(rows.map(({ rule, cells }) => [rule.id, cells]));
    if (this.#flashes.size > 0) setTimeout(() => this.draw(), FLASH_MS + 50);
  }

  get #lineHeight(): number {
    return PHONE.matches ? 52 : 24;
  }

  get #columnWidth(): number {
    const room = this.#canvas.clientWidth;
    return Math.max(MIN_COLUMN, Math.min(MAX_COLUMN, room / Math.max(1, this.#columns.length)));
  }

  #draw(): void {
    const height = this.#lineHeight;
    const view = this.#scroll.clientHeight;
    this.#sheet.style.height = `${this.#lines.length * height}px`;
    this.#canvas.style.height = `${Math.min(view, this.#lines.length * height)}px`;
    const { scrollTop } = this.#scroll;
    const first = Math.max(0, Math.floor(scrollTop / height));
    const shown = this.#lines.slice(first, first + Math.ceil(view / height) + 1);
    const placed = `${first} ${shown.length} ${height}`;
    if (placed !== this.#placed) this.#placeLines(shown, first, height);
    this.#placed = placed;
    const context = sized(this.#canvas);
    if (context === null) return;
    this.#colours = getComputedStyle(this.element);
    for (const [index, line] of shown.entries())
      this.#drawLine(context, line, (first + index) * height - scrollTop, height);
    this.#drawCross(context, height, scrollTop);
    this.#drawAxis();
  }

  /** The elements of the lines in view. */
  #placeLines(lines: readonly Line[], first: number, height: number): void {
    const focus =
      document.activeElement instanceof HTMLAnchorElement ? document.activeElement.getAttribute('href') : null;
    const elements = lines.map((line, index) => {
      const element = lineElement(line, this.#input.foldAddress);
      element.style.top = `${(first + index) * height}px`;
      return element;
    });
    this.#sheet.replaceChildren(this.#canvas, ...elements);
    if (focus !== null)
      [...this.#sheet.querySelectorAll('a')]
        .find((one) => one.getAttribute('href') === focus)
        ?.focus({ preventScroll: true });
  }

  #drawLine(context: CanvasRenderingContext2D, line: Line, top: number, height: number): void {
    if (line.type === 'head') return;
    const width = this.#columnWidth;
    const [room, offset] = PHONE.matches ? [22, 27] : [height - 2, 1];
    const rect = (from: number, to: number, share: number, colour: string): void => {
      const tall = Math.max(2, room * share);
      context.fillStyle = colour;
      const gap = width >= 4 ? 1 : 0;
      context.fillRect(from * width, top + offset + (room - tall) / 2, Math.max((to - from) * width - gap, 1), tall);
    };
    if (line.type === 'fold') {
      const most = Math.max(1, ...line.cells.values());
      for (const [at, end, number] of this.#runs(line.cells, width))
        rect(at, end, 0.15 + (0.35 * number) / most, this.#colour('--ok'));
      return;
    }
    const { cells, rule } = line.row;
    // What is wrong is drawn last, at least 2 px wide.
    const runs = [...this.#runs(cells, width)];
    for (const isBad of [false, true]) {
      for (const [at, end, state] of runs) {
        if ((state === 'bad') !== isBad) continue;
        const to = isBad ? Math.max(end, at + 2 / width) : end;
        rect(at, to, HEIGHT[state], this.#colour(`--${state}`));
        // Waiting is two thin bars: the middle is taken out.
        if (state === 'waiting') rect(at, to, 0.18, this.#colour('--ground'));
      }
    }
    if (this.#flashes.size > 0) this.#drawFlashes(context, rule.id, top, height, width);
  }

  /** Neighbours with the same mark, which are one rectangle if the columns are narrow. */
  *#runs<Mark>(cells: ReadonlyMap<string, Mark>, width: number): Iterable<readonly [number, number, Mark]> {
    let from = 0;
    for (const [at, name] of this.#columns.entries()) {
      const mark = cells.get(name);
      const next = this.#columns[at + 1];
      if (width < 4 && next !== undefined && cells.get(next) === mark) continue;
      if (mark !== undefined) yield [from, at + 1, mark];
      from = at + 1;
    }
  }

  #drawFlashes(context: CanvasRenderingContext2D, id: string, top: number, height: number, width: number): void {
    const now = performance.now();
    for (const [at, name] of this.#columns.entries()) {
      const key = `${id} ${name}`;
      const until = this.#flashes.get(key);
      if (until === undefined) continue;
      if (until < now) this.#flashes.delete(key);
      context.strokeStyle = this.#colour('--accent');
      context.lineWidth = 2;
      if (until >= now) context.strokeRect(at * width - 1, top + 1, Math.max(width, 4) + 1, height - 2);
    }
  }

  #drawCross(context: CanvasRenderingContext2D, height: number, scrollTop: number): void {
    const cursor = this.#cursor;
    if (cursor === undefined) return;
    const width = this.#columnWidth;
    context.fillStyle = this.#colour('--cross');
    context.fillRect(0, cursor.line * height - scrollTop, context.canvas.clientWidth, height);
    context.fillRect(cursor.column * width, 0, Math.max(width, 1), context.canvas.clientHeight);
  }

  #drawAxis(): void {
    const width = this.#columnWidth;
    const isNamed = width >= NAMED_COLUMN;
    this.element.classList.toggle('named', isNamed);
    const context = sized(this.#axis);
    if (context === null) return;
    context.font = `11px ${this.#colours?.fontFamily ?? 'sans-serif'}`;
    context.fillStyle = this.#colour('--soft');
    const bottom = this.#axis.clientHeight;
    if (isNamed) {
      for (const [at, name] of this.#columns.entries()) {
        context.save();
        context.translate(at * width + width / 2, bottom - 3);
        context.rotate(-Math.PI / 3);
        context.fillText(name.length > 20 ? `${name.slice(0, 19)}…` : name, 0, 4);
        context.restore();
      }
    } else if (this.#input.order === 'name') {
      let free = 0;
      let before = '';
      for (const [at, name] of this.#columns.entries()) {
        const prefix = name.split('-')[0] ?? '';
        if (prefix !== before && at * width >= free) {
          context.fillRect(at * width, bottom - 10, 1, 10);
          context.fillText(prefix, at * width + 4, bottom - 3);
          free = at * width + context.measureText(prefix).width + 12;
        }
        before = prefix;
      }
    }
    const name = this.#cursor === undefined ? undefined : this.#columns[this.#cursor.column];
    if (name === undefined || isNamed) return;
    const long = context.measureText(name).width + 8;
    const left = Math.min((this.#cursor?.column ?? 0) * width, this.#axis.clientWidth - long);
    context.fillStyle = this.#colour('--ground');
    context.fillRect(left, 0, long, bottom);
    context.fillStyle = this.#colour('--text');
    context.fillText(name, left + 4, bottom - 3);
  }

  #colour(name: string): string {
    return this.#colours?.getPropertyValue(name).trim() ?? '#000';
  }

  #setCursor(cursor: { line: number; column: number } | undefined): void {
    const [from, to] = [this.#cursor, cursor];
    if (from?.line === to?.line && from?.column === to?.column) return;
    this.#cursor = cursor;
    this.#sentence.replaceChildren(...(cursor === undefined ? [] : this.#words(cursor)));
    this.draw();
  }

  #words({ line: at, column }: { line: number; column: number }): (Node | string)[] {
    const line = this.#lines[at];
    const name = this.#columns[column];
    if (line === undefined || name === undefined) return [];
    if (line.type === 'head') return [bdi(line.text), `: ${count(line.rules, 'rule')}`];
    if (line.type === 'fold')
      return [bdi(name), `: ${count(line.cells.get(name) ?? 0, 'copy', 'copies')} of ${line.text}`];
    const state = line.row.cells.get(name);
    const target = line.row.targets.find((one) => one.namespace === name && one.state === state);
    const word = state === undefined ? 'no copy' : (this.#input.words?.[state] ?? LOOK[state].word);
    const why = target === undefined || target.reason === '' ? '' : ` (${target.reason}: ${target.message})`;
    return [bdi(line.row.title), ' in ', bdi(name), ': ', word, ...(why === '' ? [] : [bdi(why)])];
  }

  #at(event: MouseEvent): { line: number; column: number } | undefined {
    const box = this.#canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.#columnWidth);
    // The canvas stays in view while the sheet scrolls.
    const line = Math.floor((event.clientY - box.top + this.#scroll.scrollTop) / this.#lineHeight);
    const isInside = column >= 0 && column < this.#columns.length && line >= 0 && line < this.#lines.length;
    return isInside ? { line, column } : undefined;
  }

  #onPointer(event: PointerEvent): void {
    if (event.pointerType !== 'touch') this.#setCursor(this.#at(event));
  }

  #onClick(event: MouseEvent): void {
    if (event.target instanceof Element && event.target.closest('a') !== null) return;
    const at = this.#at(event);
    if (at !== undefined) this.#openAt(at);
  }

  #openAt({ line: index, column }: { line: number; column: number }): void {
    const line = this.#lines[index];
    if (line?.type === 'fold') location.hash = this.#input.foldAddress(line.key);
    if (line?.type !== 'rule') return;
    const target = line.row.targets.find(
      ({ namespace, state }) => namespace === this.#columns[column] && state !== 'refused',
    );
    location.hash = objectAddress(target ?? line.row.rule);
  }

  #onKey(event: KeyboardEvent): void {
    if (event.target !== this.#scroll) return;
    const { line, column } = this.#cursor ?? { line: 0, column: -1 };
    const last = [this.#lines.length - 1, this.#columns.length - 1] as const;
    const moves: Readonly<Record<string, readonly [number, number]>> = {
      ArrowUp: [line - 1, Math.max(0, column)],
      ArrowDown: [line + (column < 0 ? 0 : 1), Math.max(0, column)],
      ArrowLeft: [line, column - 1],
      ArrowRight: [line, column + 1],
      Home: [line, 0],
      End: [line, last[1]],
    };
    const move = Object.hasOwn(moves, event.key) ? moves[event.key] : undefined;
    if (event.key === 'Enter' && this.#cursor !== undefined) return this.#openAt(this.#cursor);
    if (move === undefined) return undefined;
    event.preventDefault();
    const next = { line: Math.max(0, Math.min(last[0], move[0])), column: Math.max(0, Math.min(last[1], move[1])) };
    const height = this.#lineHeight;
    const { scrollTop, clientHeight } = this.#scroll;
    if (next.line * height < scrollTop) this.#scroll.scrollTop = next.line * height;
    if ((next.line + 1) * height > scrollTop + clientHeight)
      this.#scroll.scrollTop = (next.line + 1) * height - clientHeight;
    return this.#setCursor(next);
  }
}

function lineElement(line: Line, foldAddress: (key: string) => string): HTMLElement {
  if (line.type === 'head') return h('div.line.head', bdi(line.text), h('span.number', count(line.rules, 'rule')));
  if (line.type === 'fold') {
    const sign = line.isOpen ? '▾' : '▸';
    return h('div.line.fold', h('span.glyph', sign), link(foldAddress(line.key), line.text));
  }
  const { rule, state, counts } = line.row;
  const from = rule.source.startsWith('vault ') ? 'from Vault' : rule.from === null ? rule.source.split(' ')[0] : '';
  const remark = [line.isInGroup ? '' : rule.namespace, from].filter((text) => text !== '').join(' · ');
  const wrong = (['bad', 'waiting', 'pending', 'refused'] as const).find((one) => counts.has(one));
  const fine = rule.isCounted ? (counts.get('ok') ?? 0).toLocaleString('en') : '?';
  return h(
    'div.line',
    h(`span.glyph.${state}`, { title: LOOK[state].word }, LOOK[state].glyph),
    h('a', { href: objectAddress(rule), class: 'name' }, bdi(rule.name), h('small', ' ', bdi(remark ?? ''))),
    h(
      'span.number',
      wrong !== undefined &&
        h(
          'span',
          { class: wrong, title: LOOK[wrong].word },
          `${(counts.get(wrong) ?? 0).toLocaleString('en')} ${LOOK[wrong].glyph} `,
        ),
      fine,
    ),
  );
}

/** Makes the canvas as large as its element, in pixels of the screen. */
function sized(canvas: HTMLCanvasElement): CanvasRenderingContext2D | null {
  const ratio = devicePixelRatio;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  const context = canvas.getContext('2d');
  context?.scale(ratio, ratio);
  return context;
}
