/** Text tables in the layout of kubectl. */
import { type Cell, type Paint, textOf, unpainted } from './styles.ts';

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

function oneLine(cell: string): string {
  const end = cell.search(/[\f\n\r]/);
  return end < 0 ? cell : `${cell.slice(0, end)}...`;
}
