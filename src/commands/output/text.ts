/** What a command prints: text tables in the layout of kubectl, and reports for programs. */
import { stringify } from 'yaml';
import { type Cell, type Paint, textOf, unpainted } from './terminal.ts';

/** A column is as wide as its longest cell plus this many blanks, at least `MIN_WIDTH`. */
const PADDING = 3;
const MIN_WIDTH = 6;

/** The lines of a table, header first, without line ends. Cells are cut at their first line break. The last column is not padded. */
export function textTable(
  header: readonly string[],
  rows: Iterable<readonly Cell[]>,
  paint: Paint = unpainted,
): string[] {
  const titles = header.map((text) => ({ text, style: 'title' }) as const);
  const lines = [titles, ...rows];
  const texts = lines.map((cells) => header.map((_, index) => oneLine(textOf(cells[index] ?? ''))));
  const widths = header.map((_, index) =>
    Math.max(MIN_WIDTH, ...texts.map((cells) => (cells[index] ?? '').length + PADDING)),
  );
  return lines.map((cells, row) => {
    const last = header.length - 1;
    return header
      .map((_, index) => {
        const cell = cells[index] ?? '';
        const text = texts[row]?.[index] ?? '';
        // Only the text is painted: a painted blank could be visible.
        const padding = index === last ? '' : ' '.repeat((widths[index] ?? 0) - text.length);
        return `${typeof cell === 'string' ? text : paint(text, cell.style)}${padding}`;
      })
      .join('');
  });
}

/** An output for people: tables and lines, with an empty line between its parts. */
export class TextParts {
  readonly #paint: Paint;
  readonly #parts: (readonly string[])[] = [];

  constructor(paint: Paint) {
    this.#paint = paint;
  }

  /** Adds lines, if there are any. */
  lines(lines: readonly string[]): void {
    if (lines.length > 0) this.#parts.push(lines);
  }

  /** Adds a table, if it has a row. */
  table(header: readonly string[], rows: readonly (readonly Cell[])[]): void {
    if (rows.length > 0) this.#parts.push(textTable(header, rows, this.#paint));
  }

  /** With a line end. */
  toString(): string {
    return `${this.#parts.map((lines) => lines.join('\n')).join('\n\n')}\n`;
  }
}

function oneLine(cell: string): string {
  const end = cell.search(/[\f\n\r]/);
  return end < 0 ? cell : `${cell.slice(0, end)}...`;
}

/** `1 copy`, `2 copies` */
export function copiesText(count: number): string {
  return count === 1 ? '1 copy' : `${count} copies`;
}

/** A report as text, with a line end. */
export function reportText(report: object, format: 'json' | 'yaml'): string {
  return format === 'json' ? `${JSON.stringify(report, undefined, 2)}\n` : stringify(report);
}
