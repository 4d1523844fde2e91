/** The help of the program and of its commands. */
import type { Flag } from '../config/flags/flags.ts';
import { sentence } from '../runtime/text/texts.ts';
import { wrapped } from '../runtime/text/wrapped.ts';
import type { Described } from './command.ts';
import { PROGRAM } from './examples.ts';

/** The width where no terminal tells its own. */
const DEFAULT_COLUMNS = 80;
/** Below this width of the second column, its text would be hard to read. */
const MIN_TEXT = 40;
/** Width of the first column, if a term is longer. */
const MOST_TERM = 24;
const PAGES = 'https://github.com/keyferry/keyferry/blob/main/docs';
const SETTINGS =
  'Settings of the operator. The command evaluates rules as the operator does, so give it the same ones, as flags or as variables (`keyferry run --help` explains them):';

type Row = readonly [term: string, text: string];

/** The commands that answer questions. They come first in the help, then those that run controllers. */
const LOOKING: ReadonlySet<string> = new Set(['status', 'explain', 'plan']);

export function programHelp(commands: readonly Described[], columns?: number): string {
  const options: Row[] = [
    ['-V, --version', 'print the version'],
    ['-h, --help', 'print help'],
  ];
  const rowsOf = (isHere: (command: Described) => boolean): Row[] =>
    commands.filter(isHere).map(({ name, summary }): Row => [name, summary]);
  const isRunning = ({ flags }: Described): boolean => flags.some(({ name }) => name === 'leader-elect');
  const isLooking = ({ name }: Described): boolean => LOOKING.has(name);
  const parts = {
    'Commands that answer': rowsOf(isLooking),
    'Commands that run controllers': rowsOf(isRunning),
    'Other commands': [
      ...rowsOf((command) => !isLooking(command) && !isRunning(command)),
      ['help [command]', 'print help'] as const,
    ],
    Options: options,
  };
  return help('Usage: keyferry [options] [command]', { ...PROGRAM, parts, page: 'README.md' }, columns);
}

/** The title above the flags of a group. @param before the title of the group before it */
function titleOf(group: string | undefined, before: string): string {
  if (group === 'cluster') return 'Cluster';
  if (group === 'limits') return 'Limits for all rules';
  // The groups after the limits are those of single controllers.
  return before === 'Options' ? before : `Options of ${group ?? ''}`;
}

export function commandHelp(command: Described, columns?: number): string {
  const { name, flags, operands = '', operandHelp = [] } = command;
  const usage = `Usage: keyferry ${name} [options] ${operands}`.trimEnd();
  const parts: Record<string, Row[]> = { Arguments: [...operandHelp], Options: [] };
  let title = 'Options';
  for (const flag of flags) {
    if (flag.sameAs !== undefined) continue;
    title = titleOf(flag.group, title);
    (parts[title] ??= []).push(flagRow(flag));
  }
  parts['Options']?.push(['-h, --help', 'print help']);
  const settings = flags.filter(({ sameAs }) => sameAs !== undefined).map((flag) => `--${flag.name}`);
  return help(usage, { ...command, parts, settings, page: `reference/flags.md#keyferry-${name}` }, columns);
}

function flagRow(flag: Flag<unknown>): Row {
  const { isBool, hint, initialText } = flag;
  const term = `${namesOf(flag).join(', ')}${isBool ? '' : ` <${hint}>`}`;
  // A switch is off where it is not given, so its help need not say so.
  const isOff = initialText === '' || (isBool && initialText === 'false');
  return [term, isOff ? flag.help : `${flag.help} (default: ${initialText})`];
}

/** The help of a flag where it stands alone. */
export function helpOf({ sameAs, help: text }: Flag<unknown>): string {
  return sameAs === undefined ? text : `same as for the ${sameAs}: ${text}`;
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
    settings = [],
    page,
  }: Pick<Described, 'summary' | 'notes' | 'examples'> & {
    readonly parts: Readonly<Record<string, readonly Row[]>>;
    readonly settings?: readonly string[];
    readonly page: string;
  },
  columns = DEFAULT_COLUMNS,
): string {
  const tables = Object.entries(parts).flatMap(([title, rows]) =>
    rows.length === 0 ? [] : [`${title}:\n${table(rows, columns)}`],
  );
  const lines = examples.map((example) => `  ${example}`).join('\n');
  const block = (text: string): string => wrapped(text, columns).join('\n');
  return `${[
    usage,
    block(sentence(summary)),
    `Examples:\n${lines}`,
    ...tables,
    ...(settings.length === 0 ? [] : [`${block(SETTINGS)}\n${wrapped(settings, columns, '  ').join('\n')}`]),
    ...(notes === undefined ? [] : [block(notes)]),
    `Documentation: ${PAGES}/${page}`,
  ].join('\n\n')}\n`;
}

/** Two columns. A term that is longer than the left column has a line of its own, as in the help of Git. */
function table(rows: readonly Row[], columns: number): string {
  const longest = Math.max(...rows.map(([term]) => term.length));
  const left = Math.min(longest, MOST_TERM) + 4;
  const gap = `\n${' '.repeat(left)}`;
  return rows
    .map(([term, text]) => {
      const lines = wrapped(text, Math.max(columns - left, MIN_TEXT)).join(gap);
      return term.length + 4 > left ? `  ${term}${gap}${lines}` : `  ${term}`.padEnd(left) + lines;
    })
    .join('\n');
}
