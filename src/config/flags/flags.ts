/**
 * Tables of flags. A table defines how a command line is parsed, its help, and the type of the result.
 *
 * A command line is split as by Go's `flag` package, so that arguments in a Deployment of an original keep their
 * meaning. A flag has one or two dashes. Its value comes after `=`, or is the next argument. Unlike in GNU style, a
 * boolean never takes the next argument, and the first argument that is no flag ends the flags.
 */
import { parseListenAddress, type ListenAddress } from '../../observe/listen-address.ts';
import { quoted, UsageError } from '../usage-error.ts';
import { parseBool } from '../../runtime/text/go-bool.ts';
import { isWithinEdits } from '../../runtime/text/texts.ts';
import { insteadOf, refuseGoneVariables } from './gone-flags.ts';
import { parseCount, parseDuration, parseList } from './values.ts';

export interface Flag<T> {
  /** The name without dashes. */
  readonly name: string;
  /** Whether the flag is a boolean, which needs no value. */
  readonly isBool: boolean;
  /** The word that stands for the value in the help, for example `duration`. */
  readonly hint: string;
  readonly help: string;
  readonly initial: T;
  /** The default in the help; empty: none. */
  readonly initialText: string;
  /** @throws RangeError with the rule for valid values; `parseFlags` adds the flag and the value */
  readonly parse: (text: string) => T;
  /** Whether the value is a comma-separated list. If repeated, all items count. Of other flags, the last one counts. */
  readonly isList?: boolean;
  /** The environment variable that counts if the flag is not given. An empty variable counts as absent. */
  readonly variable?: string;
  /** Another flag: if it is not given, it gets the value of this flag. If several flags set it, the last one counts. */
  readonly sets?: string;
  /** Explains for the log why the given flag has no effect; `undefined`: it has an effect. @param text its value */
  readonly note?: (text: string) => string | undefined;
}

export type FlagTable = Readonly<Record<string, Flag<unknown>>>;

export type FlagValues<Table extends FlagTable> = {
  readonly [Key in keyof Table]: Table[Key] extends Flag<infer T> ? T : never;
};

/** The tables of a command, by the part of the Config that they define. */
export type FlagSections = Readonly<Record<string, FlagTable>>;

export type SectionValues<Sections extends FlagSections> = {
  readonly [Section in keyof Sections]: FlagValues<Sections[Section]>;
};

export interface ParsedFlags<Sections extends FlagSections> {
  readonly values: SectionValues<Sections>;
  /** The names of the flags on the command line. */
  readonly given: ReadonlySet<string>;
  /** The arguments after the flags. */
  readonly rest: readonly string[];
  /** Flags that were accepted but have no effect, as sentences for the log. */
  readonly notes: readonly string[];
  /** Whether help is requested. If so, nothing else was read. */
  readonly isHelp: boolean;
}

/**
 * Reads a command line, and the environment variables of flags that are not given.
 * @throws UsageError, with the flag or variable and its bad value
 */
export function parseFlags<Sections extends FlagSections>(
  sections: Sections,
  argv: readonly string[],
  env: ProcessInfo['env'] = {},
): ParsedFlags<Sections> {
  refuseGoneVariables(env);
  const flags = new Map(flagsOf(sections).map((flag) => [flag.name, flag]));
  const split = splitGoFlags(argv, flags);
  const { found, rest } = split ?? { found: [], rest: [] };
  const given = new Map<string, unknown>();
  const lists = new Map<string, string>();
  for (const [flag, text] of found) {
    const earlier = flag.isList === true ? lists.get(flag.name) : undefined;
    const all = earlier === undefined ? text : `${earlier},${text}`;
    lists.set(flag.name, all);
    given.set(flag.name, parseOne(flag, all, `--${flag.name}`));
  }
  const valueOf = (flag: Flag<unknown>): unknown => {
    const setters = [...flags.values()].filter(({ sets }) => sets === flag.name);
    const value = given.get(flag.name) ?? setters.map(valueOf).findLast((one) => one !== undefined);
    if (value !== undefined || given.has(flag.name)) return value;
    const { variable = '' } = flag;
    const text = env[variable] ?? '';
    return text === '' ? flag.initial : parseOne(flag, text, `$${variable}`);
  };
  const values = mapValues(sections, (table) => mapValues(table, valueOf)) as SectionValues<Sections>;
  const notes = found.flatMap(([{ note }, text]) => note?.(text) ?? []);
  return { values, given: new Set(given.keys()), rest, notes: [...new Set(notes)], isHelp: split === undefined };
}

/** The flags, in the order of the help. */
export function flagsOf(sections: FlagSections): readonly Flag<unknown>[] {
  return Object.values(sections).flatMap((table) => Object.values(table));
}

/** The values that an empty command line gives. */
export function initialValues<Table extends FlagTable>(table: Table): FlagValues<Table> {
  return mapValues(table, ({ initial }) => initial) as FlagValues<Table>;
}

/** The same table with a prefix before each name. */
export function prefixed<Table extends FlagTable>(prefix: string, table: Table): Table {
  return mapValues(table, (flag) => ({ ...flag, name: `${prefix}${flag.name}` })) as Table;
}

export function mapValues<T, R>(record: Readonly<Record<string, T>>, map: (value: T) => R): Record<string, R> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}

/**
 * Splits a command line into flags and arguments. @param known the flags by name
 * @returns `undefined`: `-h`, `-help` or `--help`. Else the flags in their order (a boolean without a value has
 * `true`), and the arguments from the first one that is no flag, or after `--`
 * @throws UsageError: an unknown flag, a missing value, or a malformed flag such as `--=x`
 */
function splitGoFlags(
  argv: readonly string[],
  known: ReadonlyMap<string, Flag<unknown>>,
): { readonly found: readonly (readonly [Flag<unknown>, string])[]; readonly rest: readonly string[] } | undefined {
  const found: [Flag<unknown>, string][] = [];
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at] ?? '';
    if (argument === '--') return { found, rest: argv.slice(at + 1) };
    if (argument.length < 2 || !argument.startsWith('-')) return { found, rest: argv.slice(at) };
    const text = argument.slice(argument.startsWith('--') ? 2 : 1);
    if (text === '' || text.startsWith('-') || text.startsWith('=')) {
      throw new UsageError(`bad flag syntax: ${quoted(argument)}`);
    }
    const equals = text.indexOf('=');
    const name = equals === -1 ? text : text.slice(0, equals);
    const flag = known.get(name);
    if (flag === undefined) {
      if (name === 'h' || name === 'help') return undefined;
      const instead = insteadOf(name);
      if (instead !== undefined) throw new UsageError(instead);
      const written = argument.slice(0, argument.length - text.length + name.length);
      const similar =
        [...known.keys()].find((candidate) => candidate.endsWith(`-${name}`)) ??
        [...known.keys()].find((candidate) => name.length >= 5 && isWithinEdits(name, candidate, 2));
      throw new UsageError(`unknown flag ${written}${similar === undefined ? '' : `; did you mean --${similar}?`}`);
    }
    const value = equals !== -1 ? text.slice(equals + 1) : flag.isBool ? 'true' : argv[(at += 1)];
    if (value === undefined) throw new UsageError(`--${name} needs a value`);
    found.push([flag, value]);
  }
  return { found, rest: [] };
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

/** Makes flags of each kind. `initial` is the default as a user would write it. */
export const flag = {
  bool(name: string, help: string, initial = false): Flag<boolean> {
    return { name, isBool: true, hint: '', help, initial, initialText: String(initial), parse: parseBool };
  },

  /** A switch that sets another flag to a value. */
  sets<T>(name: string, sets: string, value: T, help: string): Flag<T | undefined> {
    const parse = (text: string): T | undefined => (parseBool(text) ? value : undefined);
    return { ...flag.bool(name, help), initial: undefined, parse, sets };
  },

  /** A flag with a parser of its own. */
  parsed<T>(name: string, hint: string, initial: string, help: string, parse: (text: string) => T): Flag<T> {
    return { name, isBool: false, hint, help, initial: parse(initial), initialText: initial, parse };
  },

  /** An optional text. The empty text counts as absent. */
  text(name: string, hint: string, help: string): Flag<string | undefined> {
    return flag.parsed(name, hint, '', help, (text) => text || undefined);
  },

  /** The optional name of an object. @param letters the allowed characters, for the error */
  name(name: string, help: string, isName: (text: string) => boolean, letters: string): Flag<string | undefined> {
    return flag.parsed(name, 'name', '', help, (text) => {
      if (text === '' || isName(text)) return text || undefined;
      throw new RangeError(`must be a name of ${letters}, with a letter or digit at both ends`);
    });
  },

  choice<const T extends string>(name: string, choices: readonly T[], initial: T, help: string): Flag<T> {
    const parse = (text: string): T => {
      const choice = choices.find((candidate) => candidate === text);
      if (choice === undefined) throw new RangeError(`must be one of ${choices.join(', ')}`);
      return choice;
    };
    return flag.parsed(name, choices.join('|'), initial, help, parse);
  },

  /** A duration of at least `minMs`. The value is in ms. */
  duration(name: string, initial: string, help: string, minMs = 0): Flag<number> {
    return flag.parsed(name, 'duration', initial, help, (text) => {
      const ms = parseDuration(text);
      if (ms < minMs) throw new RangeError(`must be at least ${minMs} ms`);
      return ms;
    });
  },

  count(name: string, initial: number, min: number, max: number, help: string): Flag<number> {
    return flag.parsed(name, 'number', String(initial), help, (text) => parseCount(text, min, max));
  },

  /** A listen address. As in controller-runtime, the empty text and `0` disable it. */
  address(name: string, initial: string, help: string): Flag<ListenSetting | undefined> {
    return flag.parsed(name, 'address', initial, help, (text) =>
      text === '' || text === '0' ? undefined : { address: parseListenAddress(text), flag: name },
    );
  },

  /**
   * A comma-separated list that may be repeated: all items count. An empty list is an error: a value that is empty by
   * mistake would mean the default, which permits everything.
   * @param check throws RangeError for a bad item
   */
  list(name: string, hint: string, help: string, check: (item: string) => unknown): Flag<readonly string[]> {
    const parse = (text: string): readonly string[] => {
      const items = parseList(text);
      if (items.length === 0) throw new RangeError('must have at least one item; omit the flag for the default');
      for (const item of items) check(item);
      return items;
    };
    return { name, isBool: false, hint, help, initial: [], initialText: '', parse, isList: true };
  },
};

/** An address, and the flag that gave it, for an error when listening fails. */
export interface ListenSetting {
  readonly address: ListenAddress;
  readonly flag: string;
}

/** The inputs of a Config besides the command line. */
export interface ProcessInfo {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostname: string;
  /** Random, and different for each process. */
  readonly uniqueId: string;
  /** Process id. 1: the main process of a container, which ends together with the container. Default: not 1. */
  readonly pid?: number;
}
