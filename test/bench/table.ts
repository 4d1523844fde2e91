/** Prints the results as a table. */
import { limitOf } from './limits.ts';
import type { BenchOptions } from './options.ts';
import type { Figure } from './rows.ts';

const HEAD = ['', 'measured', 'must', 'ok', '÷ bare client'];

export function table(figures: readonly Figure[], options: BenchOptions): string {
  const lines = [HEAD, ...figures.map((figure) => lineOf(figure, options))];
  const widths = HEAD.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const draw = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => pad(cells[column] ?? '', width, column)).join(' | ')} |`;
  const rule = `|${widths.map((width, column) => (column === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`;
  const [head = [], ...rest] = lines;
  const notes = figures.filter(({ note = '' }) => note !== '').map(({ title, note }) => `  ${title}: ${note}`);
  return [draw(head), rule, ...rest.map(draw), '', ...notes].join('\n');
}

function lineOf(figure: Figure, options: BenchOptions): string[] {
  const { title, value, unit, bare } = figure;
  const limit = limitOf(figure, options);
  return [
    title,
    amount(value, unit),
    limit === undefined ? '' : `≤ ${Number(limit.toFixed(2))}${unit === '' ? '' : ` ${unit}`}`,
    limit === undefined ? '' : value <= limit ? 'yes' : 'NO',
    bare === undefined || bare === 0 ? '' : `${(value / bare).toFixed(2)} × ${amount(bare, unit)}`,
  ];
}

function amount(value: number, unit: Figure['unit']): string {
  const digits = unit === '' ? 0 : value < 10 ? 2 : 1;
  return `${value.toFixed(digits)}${unit === '' ? '' : ` ${unit}`}`;
}

/** Pads a cell with blanks. Titles (column 0) are on the left side of the cell, figures on the right side. */
function pad(text: string, width: number, column: number): string {
  return column === 0 ? text.padEnd(width) : text.padStart(width);
}
