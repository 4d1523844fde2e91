/**
 * Patterns that users write for names of namespaces and keys of labels, in RE2 syntax as in the originals. RE2 matches
 * in linear time. In the mode `full` a pattern must match the whole name. In the mode `search` it may match any part,
 * as in the original mirrors operator: there `project-a-.+` matches `evil-project-a-x`.
 */
import { RE2JS } from 're2js';
import { ByteCache } from '../maps.ts';

type RegexMode = 'full' | 'search';

/** A valid pattern. */
export interface NamePattern {
  /** The text of the pattern. */
  readonly source: string;
  /** Number of instructions. The cost of compiling and matching is proportional to this number. */
  readonly size: number;
  /** The only name that matches, if the pattern is a plain name; otherwise `undefined`. */
  readonly literal: string | undefined;
  /** Whether the name matches in the mode of the cache. */
  matches(name: string): boolean;
  /** Whether the pattern matches the whole name, in both modes. */
  matchesWhole(name: string): boolean;
  /** Whether the pattern matches any part of the name, in both modes. */
  occursIn(name: string): boolean;
}

/** A pattern that is refused. `size`: its instructions, if it was compiled before it was refused. */
interface RefusedPattern {
  readonly error: string;
  readonly size?: number;
}

type Pattern = NamePattern | RefusedPattern;

/**
 * Largest number of instructions of one pattern. The longest match then takes about 1 ms, and most take 1 µs. RE2's time
 * grows with this number, and repetitions multiply it: `(a|b){1,50}` twenty times has 4,000. A list of 800 names has 250.
 */
const MAX_PATTERN_SIZE = 1000;
/**
 * Largest number of instructions of one pattern by its text, as it is compiled: for a long list of names without
 * repetitions, and for others. Compiling takes 5 µs for each.
 */
const MAX_ROUGH_SIZE = { list: 8192, other: 2 * MAX_PATTERN_SIZE };
/** Largest number of instructions in all patterns of one rule: they are compiled in 0.1 s at most, and match a namespace in a few ms. */
const MAX_RULE_SIZE = 10_000;

/**
 * Estimates the number of instructions of a pattern from its text, never much too low. To compile nested repetitions
 * takes seconds, so a pattern that is too large must be refused before it is compiled. Invalid patterns get a size too.
 */
function roughSize(source: string): number {
  /** For each open group: the size of the pattern before it. */
  const groups: number[] = [];
  let size = 0;
  let last = 0;
  for (const [token] of source.matchAll(TOKENS)) {
    if (token === '(') {
      groups.push(size);
      size = 0;
      last = 0;
    } else if (token === ')') {
      last = size + 2;
      size = (groups.pop() ?? 0) + last;
    } else if (token.startsWith('{') && token.length > 1) {
      const times = Math.max(1, ...(token.match(/\d+/g) ?? []).map(Number));
      size += last * (times - 1);
      last *= times;
    } else {
      last = 1;
      size += 1;
    }
  }
  return groups.reduce((sum, open) => sum + open, size);
}

/** Parts of a pattern: repetitions with a count, escapes, classes, and single characters. */
const TOKENS = /\{\d+(?:,\d*)?\}|\\.|\[\^?\]?[^\]]*\]|./gs;

const TOO_COMPLEX = `too complex: it has more than ${MAX_PATTERN_SIZE} instructions`;

const TOO_COMPLEX_TOGETHER: Pattern = { error: 'too complex in combination with the preceding patterns' };

/** Smallest size of a pattern that is no plain name. So a rule has at most 1,000 such patterns, as in the CRD. */
const MIN_PATTERN_SIZE = 10;

/** Compiles the patterns of one rule, up to a limit of their total size. */
export class RulePatterns {
  readonly #cache: PatternCache;
  readonly #maxSize: number;
  #size = 0;

  /** @param maxSize largest number of instructions in all patterns together */
  constructor(cache: PatternCache, maxSize: number = MAX_RULE_SIZE) {
    this.#cache = cache;
    this.#maxSize = maxSize;
  }

  /** Number of instructions in the added patterns. */
  get size(): number {
    return this.#size;
  }

  /** Whether the added patterns together are above the limit. */
  get isFull(): boolean {
    return this.#size > this.#maxSize;
  }

  add(source: string): Pattern {
    // Above the limit, nothing more is compiled. Refused patterns count, too, because to compile them takes as long.
    if (this.isFull) return TOO_COMPLEX_TOGETHER;
    const pattern = this.#cache.get(source);
    if ('error' in pattern) {
      this.#size += pattern.size ?? 0;
      return pattern;
    }
    this.#size += pattern.literal === undefined ? Math.max(pattern.size, MIN_PATTERN_SIZE) : 1;
    return this.isFull ? TOO_COMPLEX_TOGETHER : pattern;
  }
}

/** Largest size of the cache of patterns, bytes. Their compiled programs do not count. */
const PATTERNS_BYTES = 4 * 1024 * 1024;
/** Largest memory that a pattern takes besides its text, bytes; measured. */
const BYTES_PER_PATTERN = 600;

/**
 * Largest size of the cache of compiled programs, bytes: the programs of one rule can take 4 MiB, and any user can
 * write rules. An evicted program is compiled again if a namespace has the prefix of its pattern.
 */
const PROGRAMS_BYTES = 6 * 1024 * 1024;
/** Largest memory of one instruction in a compiled program, bytes; measured. */
const BYTES_PER_INSTRUCTION = 400;
const BYTES_PER_PROGRAM = 2048;

/** A plain name, as most patterns are. It needs no regular expression. */
const LITERAL = /^[a-z0-9-]+$/;

/** Patterns that match every name, because no name is empty. */
const MATCH_ALL: ReadonlySet<string> = new Set(['.*', '.+', '^.*$', '^.+$']);

/**
 * A prefix of every name that matches the whole pattern. Most patterns begin with literal characters, so a comparison
 * with this prefix excludes most names before the regular expression runs.
 */
function prefixOf(source: string): string {
  if (source.includes('|')) return '';
  const prefix = /^[a-z0-9-]*/.exec(source)?.[0] ?? '';
  // A repetition after the prefix can make its last character optional.
  return /^[*?{]/.test(source.slice(prefix.length)) ? prefix.slice(0, -1) : prefix;
}

const always = (): boolean => true;

/** Matches every name. */
export const ANY_NAME: NamePattern = {
  source: '.*',
  size: 1,
  literal: undefined,
  matches: always,
  matchesWhole: always,
  occursIn: always,
};

/** A prefix and any rest, as most other patterns are. */
const PREFIX = /^([a-z0-9-]+)\.([*+])$/;

/** The begin of a pattern with a look-ahead, as .NET and Perl have it. RE2 has none. */
const LOOK_AHEAD = /^\^?\(\?([=!])/;

/** A pattern that begins with look-aheads: what must (not) follow the start of a name, and what the name must match. */
interface LookAheads {
  readonly tests: readonly { readonly isNegated: boolean; readonly source: string }[];
  readonly rest: string;
}

/**
 * Splits the look-aheads off a pattern: `^(?!(?:a|b)$).*` is the test `^(?:(?:a|b)$)`, which must fail, and `.*`.
 * @returns `undefined`: they cannot be tested apart: a bracket is missing, or they belong to one of several alternatives
 */
function lookAheadsOf(source: string): LookAheads | undefined {
  const tests: { isNegated: boolean; source: string }[] = [];
  let rest = source;
  for (let match = LOOK_AHEAD.exec(rest); match !== null; match = LOOK_AHEAD.exec(rest)) {
    const body = rest.slice(match[0].length);
    const end = topLevel(body).find(({ token }) => token === ')')?.at;
    if (end === undefined) return undefined;
    tests.push({ isNegated: match[1] === '!', source: `^(?:${body.slice(0, end)})` });
    rest = body.slice(end + 1);
  }
  return topLevel(rest).some(({ token }) => token === '|') ? undefined : { tests, rest };
}

/** The tokens outside of groups, with their places; the last one closes the group around them. */
function topLevel(source: string): { readonly token: string; readonly at: number }[] {
  const found: { token: string; at: number }[] = [];
  let depth = 0;
  for (const { 0: token, index } of source.matchAll(TOKENS)) {
    if (depth === 0) found.push({ token, at: index });
    if (token === '(') depth += 1;
    else if (token === ')' && depth === 0) return found;
    else if (token === ')') depth -= 1;
  }
  return found;
}

export interface PatternOptions {
  /** Whether a pattern may begin with look-aheads. They are tested apart, because RE2 has none. */
  readonly lookAhead?: boolean;
}

/** Compiles each pattern one time for all rules. */
export class PatternCache {
  readonly #mode: RegexMode;
  readonly #lookAhead: boolean;
  readonly #patterns = new ByteCache<Pattern>({ maxBytes: PATTERNS_BYTES });
  readonly #programs = new ByteCache<RE2JS>({ maxBytes: PROGRAMS_BYTES });

  constructor(mode: RegexMode, { lookAhead = false }: PatternOptions = {}) {
    this.#mode = mode;
    this.#lookAhead = lookAhead;
  }

  get(source: string): Pattern {
    let pattern = this.#patterns.get(source);
    if (pattern === undefined) {
      pattern = this.#compile(source);
      this.#patterns.set(source, pattern, 2 * source.length + BYTES_PER_PATTERN);
    }
    return pattern;
  }

  get size(): number {
    return this.#patterns.size;
  }

  /** Approximate size of the compiled programs, bytes. */
  get programBytes(): number {
    return this.#programs.bytes;
  }

  #program(source: string): RE2JS {
    let program = this.#programs.get(source);
    if (program === undefined) {
      program = RE2JS.compile(source);
      this.#programs.set(source, program, BYTES_PER_PROGRAM + program.programSize() * BYTES_PER_INSTRUCTION);
    }
    return program;
  }

  #compile(source: string): Pattern {
    if (this.#lookAhead && LOOK_AHEAD.test(source)) return this.#withLookAheads(source);
    if (this.#mode === 'full' && LITERAL.test(source)) {
      return this.#pattern(
        source,
        1,
        source,
        (name) => name === source,
        (name) => name.includes(source),
      );
    }
    if (MATCH_ALL.has(source)) return ANY_NAME;
    const [, start, sign] = PREFIX.exec(source) ?? [];
    if (start !== undefined) {
      const shortest = start.length + (sign === '+' ? 1 : 0);
      return this.#pattern(
        source,
        1,
        undefined,
        (name) => name.startsWith(start) && name.length >= shortest,
        (name) => name.includes(start) && name.length - name.indexOf(start) >= shortest,
      );
    }
    const maxSize = Math.max(MAX_ROUGH_SIZE.other, Math.min(source.length, MAX_ROUGH_SIZE.list));
    const rough = roughSize(source);
    if (rough > maxSize) return { error: TOO_COMPLEX };
    try {
      const size = this.#program(source).programSize();
      if (size > MAX_PATTERN_SIZE) return { error: TOO_COMPLEX, size };
      const prefix = prefixOf(source);
      const matchesWhole = (name: string): boolean => name.startsWith(prefix) && this.#program(source).testExact(name);
      const occursIn = (name: string): boolean => this.#program(source).test(name);
      return this.#pattern(source, size, undefined, matchesWhole, occursIn);
    } catch (error) {
      return { error: error instanceof Error ? error.message : String(error), size: rough };
    }
  }

  #withLookAheads(source: string): Pattern {
    const split = lookAheadsOf(source);
    if (split === undefined) return { error: 'a look-ahead must be complete, and must not stand beside a top-level |' };
    const tests: { readonly isNegated: boolean; readonly pattern: NamePattern }[] = [];
    for (const { isNegated, source: text } of split.tests) {
      const pattern = this.#compile(text);
      if ('error' in pattern) return pattern;
      tests.push({ isNegated, pattern });
    }
    const rest = this.#compile(split.rest);
    if ('error' in rest) return rest;
    const size = tests.reduce((sum, { pattern }) => sum + pattern.size, rest.size);
    if (size > MAX_PATTERN_SIZE) return { error: TOO_COMPLEX, size };
    const matches = (name: string): boolean =>
      tests.every(({ isNegated, pattern }) => pattern.occursIn(name) !== isNegated) && rest.matchesWhole(name);
    return this.#pattern(source, size, undefined, matches, matches);
  }

  #pattern(
    source: string,
    size: number,
    literal: string | undefined,
    matchesWhole: NamePattern['matches'],
    occursIn: NamePattern['matches'],
  ): NamePattern {
    return { source, size, literal, matches: this.#mode === 'full' ? matchesWhole : occursIn, matchesWhole, occursIn };
  }
}
