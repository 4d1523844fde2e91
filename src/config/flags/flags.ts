/** Tables of flags. A table defines how a command line is parsed (`parse-flags.ts`), its help, and the type of the result. */
import { parseListenAddress, type ListenAddress } from '../../observe/listen-address.ts';
import { parseBool } from '../../runtime/text/go-bool.ts';
import { parseCount, parseDuration, parseList } from './values.ts';

export interface Flag<T> {
  /** The name without dashes. */
  readonly name: string;
  /** The one letter that may stand for the name: `-n`. */
  readonly short?: string;
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
  /** The sign between the items of a list. If repeated, all items count. Of other flags, the last one counts. */
  readonly separator?: ',' | '\n';
  /** The environment variable whose value counts if the flag is not given. An empty value is one, too. */
  readonly variable?: string;
  /** The part of a command's flags that it belongs to, for the help. */
  readonly group?: string;
  /** A setting of this program, which a command that only reads must be given, too. */
  readonly sameAs?: string;
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

/** The flags, in the order of the help. */
export function flagsOf(sections: FlagSections): readonly Flag<unknown>[] {
  return Object.entries(sections).flatMap(([group, table]) =>
    Object.values(mapValues(table, (one) => ({ ...one, group }))),
  );
}

/** The values that an empty command line gives. */
export function initialValues<Table extends FlagTable>(table: Table): FlagValues<Table> {
  return mapValues(table, ({ initial }) => initial) as FlagValues<Table>;
}

/** The same table with a prefix before each name. */
export function prefixed<Table extends FlagTable>(prefix: string, table: Table): Table {
  return mapValues(table, (flag) => ({ ...flag, name: `${prefix}${flag.name}` })) as Table;
}

/** The same table with an environment variable for each flag. @param prefix that of the flags under `run` */
export function withVariables<Table extends FlagTable>(table: Table, prefix = ''): Table {
  return mapValues(table, (flag) => ({ ...flag, variable: variableOf(`${prefix}${flag.name}`) })) as Table;
}

/** The variable of a flag: `KEYFERRY_SOURCE_NAMESPACES`. */
export function variableOf(name: string): string {
  return `KEYFERRY_${name.toUpperCase().replaceAll('-', '_')}`;
}

export function mapValues<T, R>(record: Readonly<Record<string, T>>, map: (value: T) => R): Record<string, R> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
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
    return { name, isBool: false, hint, help, initial: [], initialText: '', parse, separator: ',' };
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
}
