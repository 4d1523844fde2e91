/** The help of the program and of its commands. */
import type { Flag } from '../config/flags/flags.ts';
import type { Described } from './command.ts';
import { PROGRAM } from './examples.ts';

/** Below this width of the second column, its text would be hard to read. */
const MIN_TEXT = 40;

type Row = readonly [term: string, text: string];

export function programHelp(commands: readonly Described[], columns?: number): string {
  const options: Row[] = [
    ['-V, --version', 'print the version'],
    ['-h, --help', 'print help'],
  ];
  const rows = [
    ...commands.map(({ name, summary }): Row => [name, summary]),
    ['help [command]', 'print help'] as const,
  ];
  const usage = 'Usage: keyferry [options] [command]';
  return help(usage, { ...PROGRAM, parts: { Options: options, Commands: rows } }, columns);
}

export function commandHelp(command: Described, columns?: number): string {
  const { name, flags, operands = '', operandHelp = [] } = command;
  const usage = `Usage: keyferry ${name} [options] ${operands}`.trimEnd();
  const options = [...flags.map(flagRow), ['-h, --help', 'print help'] as const];
  return help(usage, { ...command, parts: { Arguments: operandHelp, Options: options } }, columns);
}

function flagRow(flag: Flag<unknown>): Row {
  const { isBool, hint, help: text, initialText } = flag;
  const term = `${namesOf(flag).join(', ')}${isBool ? '' : ` <${hint}>`}`;
  return [term, initialText === '' ? text : `${text} (default: ${initialText})`];
}

/** `-n`, `--namespace` */
export function namesOf({ name, short }: Flag<unknown>): readonly string[] {
  return [...(short === undefined ? [] : [`-${short}`]), `--${name}`];
}

function help(
  usage: string,
  {
    summary,
    notes,
    examples,
    parts,
  }: Pick<Described, 'summary' | 'notes' | 'examples'> & {
    readonly parts: Readonly<Record<string, readonly Row[]>>;
  },
  columns = Infinity,
): string {
  const tables = Object.entries(parts).flatMap(([title, rows]) =>
    rows.length === 0 ? [] : [`${title}:\n${table(rows, columns)}`],
  );
  const lines = examples.map((example) => `  ${example}`).join('\n');
  const texts = [usage, wrapped(summary, columns).join('\n'), ...tables, ...(notes === undefined ? [] : [notes])];
  return `${[...texts, `Examples:\n${lines}`].join('\n\n')}\n`;
}

function table(rows: readonly Row[], columns: number): string {
  const left = Math.max(...rows.map(([term]) => term.length)) + 4;
  const width = Math.max(columns - left, MIN_TEXT);
  return rows
    .map(([term, text]) => `  ${term}`.padEnd(left) + wrapped(text, width).join(`\n${' '.repeat(left)}`))
    .join('\n');
}

/** Breaks a text at spaces. A word that is longer than the width has a line of its own. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
