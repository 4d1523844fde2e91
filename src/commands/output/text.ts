/** How commands print: text tables in kubectl's layout, and reports as JSON or YAML. */
import { stringify } from 'yaml';
import { type Cell, type Paint, unpainted } from './terminal.ts';

/** Blanks after the longest cell of a column. A column with its blanks has at least `MIN_WIDTH` characters. */
const PADDING = 3;
const MIN_WIDTH = 6;

/** The lines of a table, without line ends; the header is first. Each cell is cut at its first line break. */
export function textTable(
  header: readonly string[],
  rows: Iterable<readonly Cell[]>,
  paint: Paint = unpainted,
): string[] {
  const titles = header.map((text) => ({ text, style: 'title' }) as const);
  const lines = [titles, ...rows].map((cells) => header.map((_, index) => oneLine(cells[index] ?? '')));
  const widths = header.map((_, index) =>
    lines.reduce((width, cells) => Math.max(width, (cells[index]?.text.length ?? 0) + PADDING), MIN_WIDTH),
  );
  return lines.map((cells) =>
    cells
      .map(({ text, style }, index) => {
        // The color covers only the text: with some styles, colored blanks would be visible.
        const padding = index === cells.length - 1 ? '' : ' '.repeat((widths[index] ?? 0) - text.length);
        return `${style === undefined ? text : paint(text, style)}${padding}`;
      })
      .join(''),
  );
}

/** The cell's text up to its first line break, with `...` if there is one. */
function oneLine(cell: Cell): Exclude<Cell, string> {
  if (typeof cell === 'string') return oneLine({ text: cell });
  const end = cell.text.search(/[\f\n\r]/);
  return end < 0 ? cell : { ...cell, text: `${cell.text.slice(0, end)}...` };
}

/** Text for people that consists of tables and lines. An empty line separates two of them. */
export class TextParts {
  readonly #paint: Paint;
  readonly #parts: (readonly string[])[] = [];

  constructor(paint: Paint) {
    this.#paint = paint;
  }

  /** Adds the lines as one part. An empty list adds nothing. */
  lines(lines: readonly string[]): void {
    if (lines.length > 0) this.#parts.push(lines);
  }

  /** Adds names and texts as one part. */
  facts(facts: readonly (readonly [name: string, text: string])[]): void {
    const width = Math.max(...facts.map(([name]) => name.length)) + 2;
    this.lines(facts.map(([name, text]) => `${this.#paint(name, 'title')}${' '.repeat(width - name.length)}${text}`));
  }

  /** Adds a table as one part. A table without rows is left out. */
  table(header: readonly string[], rows: readonly (readonly Cell[])[]): void {
    if (rows.length > 0) this.#parts.push(textTable(header, rows, this.#paint));
  }

  /** All parts as text. It ends with a line break. */
  toString(): string {
    return `${this.#parts.map((lines) => lines.join('\n')).join('\n\n')}\n`;
  }
}

/** `1 copy`, `2 copies` */
export function copiesText(count: number): string {
  return count === 1 ? '1 copy' : `${count} copies`;
}

/** A report as JSON or YAML. It ends with a line break. */
export function reportText(report: object, format: 'json' | 'yaml'): string {
  return format === 'json' ? `${JSON.stringify(report, undefined, 2)}\n` : stringify(report);
}
