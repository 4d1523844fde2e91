/** Text tables in the layout of kubectl. */

/** A column is as wide as its longest cell plus this many blanks, at least `MIN_WIDTH`. */
const PADDING = 3;
const MIN_WIDTH = 6;

/** The lines of a table, header first, without line ends. Cells are cut at their first line break. The last column is not padded. */
export function textTable(header: readonly string[], rows: Iterable<readonly string[]>): string[] {
  const lines = [header, ...rows].map((cells) => header.map((_, index) => oneLine(cells[index] ?? '')));
  const widths = header.map((_, index) =>
    Math.max(MIN_WIDTH, ...lines.map((cells) => (cells[index] ?? '').length + PADDING)),
  );
  return lines.map((cells) => {
    const last = cells.length - 1;
    return cells.map((cell, index) => (index === last ? cell : cell.padEnd(widths[index] ?? 0))).join('');
  });
}

function oneLine(cell: string): string {
  const end = cell.search(/[\f\n\r]/);
  return end < 0 ? cell : `${cell.slice(0, end)}...`;
}
