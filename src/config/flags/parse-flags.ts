/**
 * Reads a command line. It is parsed so that arguments in a Deployment of an original, which is a program in Go, keep
 * their meaning: a flag has one or two dashes, its value comes after `=` or is the next argument, and a boolean never
 * takes the next argument. Other forms are refused with the name of the flag.
 */
import { parseArgs, type ParseArgsOptionsConfig } from 'node:util';
import { isWithinEdits } from '../../runtime/text/texts.ts';
import { quoted, UsageError } from '../usage-error.ts';
import { insteadOf, refuseGoneVariables } from './gone-flags.ts';
import { type Flag, type FlagSections, flagsOf, mapValues, type ProcessInfo, type SectionValues } from './flags.ts';

export interface ParsedFlags<Sections extends FlagSections> {
  readonly values: SectionValues<Sections>;
  /** The names of the flags on the command line. */
  readonly given: ReadonlySet<string>;
  /** The values of flags and variables as they were written, by the names of the flags. */
  readonly texts: ReadonlyMap<string, string>;
  /** The arguments that are no flags. */
  readonly rest: readonly string[];
  /** Flags that were accepted but have no effect, as sentences for the log. */
  readonly notes: readonly string[];
  /** Whether help is requested. If so, nothing else was read. */
  readonly isHelp: boolean;
}

/** Where arguments may be: `last`: the first one ends the flags, as in Go; `anywhere`: also before flags. */
type Operands = 'last' | 'anywhere';

/**
 * Reads a command line, and the environment variables of flags that are not given.
 * @throws UsageError, with the flag or variable and its bad value
 */
export function parseFlags<Sections extends FlagSections>(
  sections: Sections,
  argv: readonly string[],
  env: ProcessInfo['env'] = {},
  operands: Operands = 'last',
): ParsedFlags<Sections> {
  const flags = flagsOf(sections);
  const split = splitArguments(argv, flags, operands);
  const { found, rest } = split ?? { found: [], rest: [] };
  const variables = split === undefined ? {} : env;
  // A command without variables, as `version`, reads no cluster.
  if (flags.some(({ variable }) => variable !== undefined)) refuseGoneVariables(variables);
  const texts = new Map<string, string>();
  const given = new Map<string, unknown>();
  for (const [flag, text] of found) {
    const { name, separator } = flag;
    const earlier = separator === undefined ? undefined : texts.get(name);
    const all = earlier === undefined ? text : `${earlier}${separator}${text}`;
    texts.set(name, all);
    given.set(name, parseOne(flag, all, `--${name}`));
  }
  for (const { name, variable = '' } of flags) {
    const text = variables[variable];
    if (text !== undefined && !given.has(name)) texts.set(name, text);
  }
  const valueOf = (flag: Flag<unknown>): unknown => {
    const setters = flags.filter(({ sets }) => sets === flag.name);
    const value = given.get(flag.name) ?? setters.map(valueOf).findLast((one) => one !== undefined);
    if (value !== undefined || given.has(flag.name)) return value;
    const text = texts.get(flag.name);
    return text === undefined ? flag.initial : parseOne(flag, text, `$${flag.variable}`);
  };
  const values = mapValues(sections, (table) => mapValues(table, valueOf)) as SectionValues<Sections>;
  const notes = found.flatMap(([{ note }, text]) => note?.(text) ?? []);
  const said = { given: new Set(given.keys()), texts, rest, notes: [...new Set(notes)] };
  return { values, ...said, isHelp: split === undefined };
}

interface Split {
  /** The flags in their order. A boolean without a value has `true`. */
  readonly found: readonly (readonly [Flag<unknown>, string])[];
  readonly rest: readonly string[];
}

/** @returns `undefined`: help is requested @throws UsageError: an unknown flag, or a missing or doubtful value */
function splitArguments(
  argv: readonly string[],
  flags: readonly Flag<unknown>[],
  operands: Operands,
): Split | undefined {
  const known = new Map(flags.map((flag) => [flag.name, flag]));
  const longs = new Map([
    ['h', 'help'],
    ...flags.flatMap(({ short, name }) => (short ? [[short, name] as const] : [])),
  ]);
  const options: ParseArgsOptionsConfig = { help: { type: 'boolean', short: 'h' } };
  for (const { name, isBool, short } of flags)
    options[name] = { type: isBool ? 'boolean' : 'string', ...(short && { short }) };
  const args = argv.map((word) => withTwoDashes(word, known, longs));
  const found: [Flag<unknown>, string][] = [];
  const rest: string[] = [];
  for (const token of parseArgs({ args, options, strict: false, tokens: true }).tokens) {
    const word = argv[token.index] ?? '';
    if (token.kind === 'option-terminator') return { found, rest: [...rest, ...argv.slice(token.index + 1)] };
    if (token.kind === 'positional') {
      if (operands === 'last') return { found, rest: argv.slice(token.index) };
      rest.push(word);
      continue;
    }
    if (token.name === 'help' && !known.has('help')) return undefined;
    const flag = known.get(token.name);
    if (flag === undefined) throw unknownFlag(word.replace(/=.*/s, ''), token.name, known);
    const value = token.value ?? (flag.isBool ? 'true' : undefined);
    if (value === undefined) throw new UsageError(`--${flag.name} needs a value`);
    // In Go such a word is the value. Here it is more likely that the value is missing.
    if (token.inlineValue === false && /^-./.test(value))
      throw new UsageError(`--${flag.name} needs a value; if ${quoted(argv[token.index + 1] ?? '')} is it, write =`);
    found.push([flag, value]);
  }
  return { found, rest };
}

/** Writes `-name=value` as `--name=value`, also where the name is one letter. Leaves `-ojson` and `-wA` to the library. */
function withTwoDashes(word: string, known: ReadonlyMap<string, unknown>, longs: ReadonlyMap<string, string>): string {
  const [, name, value] = /^-([^-=][^=]*)(=.*)?$/s.exec(word) ?? [];
  if (name === undefined) return word;
  const long = longs.get(name);
  if (long !== undefined) return value === undefined ? word : `--${long}${value}`;
  // `-h` alone asks for help. A longer word is a flag, also an unknown one.
  const isShorts = longs.has(name.charAt(0)) && !name.startsWith('h');
  return known.has(name) || !isShorts ? `-${word}` : word;
}

function unknownFlag(written: string, name: string, known: ReadonlyMap<string, Flag<unknown>>): UsageError {
  const instead = insteadOf(name);
  if (instead !== undefined) return new UsageError(instead);
  const off = known.get(name.replace(/^no-/, ''));
  if (off?.isBool === true) return new UsageError(`unknown flag ${written}; did you mean --${off.name}=false?`);
  const names = [...known.keys()];
  const similar =
    names.find((candidate) => candidate.endsWith(`-${name}`)) ??
    names.find((candidate) => name.length >= 5 && isWithinEdits(name, candidate, 2));
  return new UsageError(`unknown flag ${written}${similar === undefined ? '' : `; did you mean --${similar}?`}`);
}

/** @param from the flag or variable that has the text, for the error @throws UsageError */
function parseOne(flag: Flag<unknown>, text: string, from: string): unknown {
  try {
    return flag.parse(text);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new UsageError(`${from}: bad value ${quoted(text)}: ${error.message}`, { cause: error });
  }
}
