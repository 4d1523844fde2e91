/** A table of flags defines how a command line is parsed, its help, and the type of the result. */
import { parseListenAddress, type ListenAddress } from '../../observe/listen-address.ts';
import { splitGoFlags } from './go-flags.ts';
import { quoted, UsageError } from '../usage-error.ts';
import { parseBool } from '../../runtime/text/go-bool.ts';
import { parseCount, parseDuration, parseList } from './values.ts';

export interface Flag<T> {
  /** Without dashes. */
  readonly name: string;
  /** A boolean flag needs no value. */
  readonly isBool: boolean;
  /** Placeholder of the value in the help: `duration`. */
  readonly hint: string;
  readonly help: string;
  readonly initial: T;
  /** Default in the help; empty for none. */
  readonly initialText: string;
  /** @throws RangeError with the rule for valid values; `parseFlags` adds flag and value */
  readonly parse: (text: string) => T;
  /** A comma-separated list. If the flag is repeated, all items count; for other flags only the last value counts. */
  readonly isList?: boolean;
  /** All valid values, if they are few. */
  readonly choices?: readonly string[];
}

export type FlagTable = Readonly<Record<string, Flag<unknown>>>;

export type FlagValues<Table extends FlagTable> = {
  readonly [Key in keyof Table]: Table[Key] extends Flag<infer T> ? T : never;
};

export interface ParsedFlags<Table extends FlagTable> {
  readonly values: FlagValues<Table>;
  /** The keys of the flags on the command line. */
  readonly given: ReadonlySet<keyof Table>;
  /** Arguments after the flags. */
  readonly rest: readonly string[];
}

/**
 * Reads a command line in Go's syntax.
 * @returns `undefined` if help is requested
 * @throws UsageError naming the flag and its bad value
 */
export function parseFlags<Table extends FlagTable>(
  table: Table,
  argv: readonly string[],
): ParsedFlags<Table> | undefined {
  const byName = new Map(Object.entries(table).map(([key, flag]) => [flag.name, { key, flag }]));
  const hintFor = (name: string): string => {
    const similar = [...byName.keys()].find((known) => known.endsWith(`-${name}`));
    return similar === undefined ? '' : `; did you mean --${similar}?`;
  };
  const split = splitGoFlags(argv, (name) => byName.get(name)?.flag.isBool, hintFor);
  if (split.help) return undefined;
  const values: Record<string, unknown> = initialValues(table);
  const given = new Set<keyof Table>();
  const lists = new Map<string, string>();
  for (const [name, text] of split.flags) {
    const found = byName.get(name);
    if (found === undefined) throw new UsageError(`unknown flag --${name}`);
    const earlier = found.flag.isList === true ? lists.get(name) : undefined;
    const all = earlier === undefined ? text : `${earlier},${text}`;
    lists.set(name, all);
    values[found.key] = parseOne(found.flag, all);
    given.add(found.key);
  }
  return { values: values as FlagValues<Table>, given, rest: split.rest };
}

/** The values of a table for an empty command line. */
export function initialValues<Table extends FlagTable>(table: Table): FlagValues<Table> {
  const values = Object.entries(table).map(([key, flag]) => [key, flag.initial] as const);
  return Object.fromEntries(values) as FlagValues<Table>;
}

function parseOne(flag: Flag<unknown>, text: string): unknown {
  try {
    return flag.parse(text);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new UsageError(`--${flag.name}: bad value ${quoted(text)}: ${error.message}`, { cause: error });
  }
}

export function boolFlag(name: string, initial: boolean, help: string): Flag<boolean> {
  return { name, isBool: true, hint: '', help, initial, initialText: String(initial), parse: parseBool };
}

/** An optional text; the empty text counts as absent. */
export function textFlag(name: string, hint: string, help: string): Flag<string | undefined> {
  return parsedFlag(name, hint, '', help, (text) => text || undefined);
}

/** The optional name of an object. @param letters the allowed characters, for the error */
export function nameFlag(
  name: string,
  help: string,
  isName: (text: string) => boolean,
  letters: string,
): Flag<string | undefined> {
  const flag = textFlag(name, 'name', help);
  const parse = (text: string): string | undefined => {
    if (text !== '' && !isName(text)) {
      throw new RangeError(`must be a name of ${letters}, with a letter or digit at both ends`);
    }
    return flag.parse(text);
  };
  return { ...flag, parse };
}

export function choiceFlag<const T extends string>(
  name: string,
  choices: readonly T[],
  initial: T,
  help: string,
): Flag<T> {
  const parse = (text: string): T => {
    const choice = choices.find((candidate) => candidate === text);
    if (choice === undefined) throw new RangeError(`must be one of ${choices.join(', ')}`);
    return choice;
  };
  return { ...parsedFlag(name, choices.join('|'), initial, help, parse), choices };
}

/** A duration of at least `minMs`, in ms. @param initial as a user writes it */
export function durationFlag(name: string, initial: string, minMs: number, help: string): Flag<number> {
  const parse = (text: string): number => {
    const ms = parseDuration(text);
    if (ms < minMs) throw new RangeError(`must be at least ${minMs} ms`);
    return ms;
  };
  return parsedFlag(name, 'duration', initial, help, parse);
}

export function countFlag(name: string, initial: number, min: number, max: number, help: string): Flag<number> {
  return parsedFlag(name, 'number', String(initial), help, (text) => parseCount(text, min, max));
}

/** An address and its flag; the flag is named in an error when listening fails. */
export interface ListenSetting {
  readonly address: ListenAddress;
  readonly flag: string;
}

/** A listen address; the empty text and `0` disable it, as in controller-runtime. */
export function addressFlag(name: string, initial: string, help: string): Flag<ListenSetting | undefined> {
  const parse = (text: string): ListenSetting | undefined =>
    text === '' || text === '0' ? undefined : { address: parseListenAddress(text), flag: name };
  return parsedFlag(name, 'address', initial, help, parse);
}

/**
 * A comma-separated list that can be repeated: all items count. An empty list is an error, because an empty value in a manifest would
 * otherwise mean the default, which permits everything.
 * @param check throws RangeError for a bad item
 */
export function listFlag(
  name: string,
  hint: string,
  help: string,
  check: (item: string) => unknown,
): Flag<readonly string[]> {
  const parse = (text: string): readonly string[] => {
    const items = parseList(text);
    if (items.length === 0) throw new RangeError('must have at least one item; omit the flag for the default');
    for (const item of items) check(item);
    return items;
  };
  return { name, isBool: false, hint, help, initial: [], initialText: '', parse, isList: true };
}

/** A value with its own parser. @param initial as a user writes it */
export function parsedFlag<T>(
  name: string,
  hint: string,
  initial: string,
  help: string,
  parse: (text: string) => T,
): Flag<T> {
  return { name, isBool: false, hint, help, initial: parse(initial), initialText: initial, parse };
}
