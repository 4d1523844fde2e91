/**
 * Patterns of namespace names, as users write them: RE2 syntax, as in the originals, so that no pattern can take more than linear
 * time.
 *
 * `full` (default): a pattern stands for the whole name. `search`: it may match anywhere in it, as the original of the mirrors does, which lets
 * `project-a-.+` into `evil-project-a-x`.
 */
import { RE2JS } from 're2js';
import { ByteCache } from '../../runtime/byte-cache.ts';
import { VerdictMemory, type Verdicts } from './verdicts.ts';

export type RegexMode = 'full' | 'search';

export type Pattern = NamespacePattern | { readonly error: string };

/** A pattern that could be compiled. */
export class NamespacePattern {
  readonly #test: (namespace: string) => boolean;
  readonly #search: (namespace: string) => boolean;
  readonly #verdicts: Verdicts | undefined;
  /** Instructions of the compiled pattern: what compiling and matching cost is in proportion to it. */
  readonly size: number;
  /** The one name that it matches, where it is a plain name. */
  readonly literal: string | undefined;

  /** @param test as the mode says; `search` for any part of the name */
  constructor(
    test: (namespace: string) => boolean,
    search: (namespace: string) => boolean,
    size: number,
    { verdicts, literal }: { readonly verdicts?: Verdicts; readonly literal?: string } = {},
  ) {
    this.#test = test;
    this.#search = search;
    this.#verdicts = verdicts;
    this.size = size;
    this.literal = literal;
  }

  /** Whether the namespace matches. It is remembered until the namespace is forgotten. */
  matches(namespace: string): boolean {
    return this.#verdicts === undefined ? this.#test(namespace) : this.#verdicts.of(namespace, this.#test);
  }

  /** Whether the pattern matches some part of the name, as the original of the mirrors asked. Not remembered. */
  occursIn(namespace: string): boolean {
    return this.#search(namespace);
  }

  /** As `matches`, for what need not be the name of a namespace: nothing is remembered. */
  matchesName(name: string): boolean {
    return this.#test(name);
  }
}

/**
 * The most instructions that the patterns of one rule may have together. RE2 is linear, but in the product of name and pattern, and
 * repetitions multiply (`(a|b){1,50}` three hundred times is 60,000 instructions in 3,600 characters, 0.2 s to compile). A list
 * of 800 names is 250.
 */
export const MAX_PATTERN_SIZE = 20_000;

/**
 * About how many instructions a pattern compiles to, from its text alone: compiling one that repeats repetitions takes seconds, and that
 * it is too large must be known before. Never much less than it is; what no pattern is counts for something, too.
 */
function roughSize(source: string): number {
  /** Sizes of the groups that are open. */
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

/** Repetitions with a count, escapes, classes, and everything else by the character. */
const TOKENS = /\{\d+(?:,\d*)?\}|\\.|\[\^?\]?[^\]]*\]|./gs;

/** The least that a pattern counts for against `MAX_PATTERN_SIZE`, so that one rule has a thousand patterns at most: what the CRD of SecretMirrors allows. */
export const LEAST_PATTERN_SIZE = 20;

/** What remembered patterns take together, bytes, beside their programs: they can be as long as what holds them. */
const PATTERNS_BYTES = 4 * 1024 * 1024;
/** Of a pattern beside its text, at most, as measured. */
const BYTES_PER_PATTERN = 600;

/** What the patterns have said of namespaces, bytes: 3,000 patterns in a cluster of 5,000 namespaces, or 10,000 in one of 1,000. */
const VERDICTS_BYTES = 4 * 1024 * 1024;

/**
 * What compiled patterns take together, bytes: the programs of one rule can be 8 MiB, and anybody can write rules. What was used
 * longest ago is compiled again when there is a namespace of which it has said nothing yet.
 */
const PROGRAMS_BYTES = 16 * 1024 * 1024;
/** At most, as measured. */
const BYTES_PER_INSTRUCTION = 400;
const BYTES_PER_PROGRAM = 2048;

/** A name without any special character: most patterns in practice, and no engine is needed for it. */
const LITERAL = /^[a-z0-9-]+$/;

/** They match every name, which none of them need be asked: no name is empty. */
const EVERYTHING: ReadonlySet<string> = new Set(['.*', '.+', '^.*$', '^.+$']);

/**
 * What every name that matches as a whole begins with, as far as that is plain to see: most patterns begin with a name, and those that
 * cannot match need not be run.
 */
function startOf(source: string): string {
  if (source.includes('|')) return '';
  const start = /^[a-z0-9-]*/.exec(source)?.[0] ?? '';
  // The last character may be repeated, not at all among others.
  return /^[*?{]/.test(source.slice(start.length)) ? start.slice(0, -1) : start;
}

function always(): boolean {
  return true;
}

/** Compiles patterns once for all rules that use them, and remembers their verdicts. */
export class PatternCache {
  readonly #mode: RegexMode;
  readonly #patterns = new ByteCache<Pattern>({ maxBytes: PATTERNS_BYTES });
  readonly #programs = new ByteCache<RE2JS>({ maxBytes: PROGRAMS_BYTES });
  readonly #verdicts = new VerdictMemory(VERDICTS_BYTES);

  constructor(mode: RegexMode) {
    this.#mode = mode;
  }

  get(source: string): Pattern {
    let pattern = this.#patterns.get(source);
    if (pattern === undefined) {
      pattern = this.#compile(source);
      this.#patterns.set(source, pattern, 2 * source.length + BYTES_PER_PATTERN);
    }
    return pattern;
  }

  /** A namespace is gone: nobody will ask for it soon. */
  forgetNamespace(namespace: string): void {
    this.#verdicts.forget(namespace);
  }

  get size(): number {
    return this.#patterns.size;
  }

  /** What is kept of what patterns said of namespaces, bytes. */
  get verdictBytes(): number {
    return this.#verdicts.bytes;
  }

  /** What is kept compiled, bytes, roughly. */
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
    if (this.#mode === 'full' && LITERAL.test(source)) {
      return new NamespacePattern(
        (namespace) => namespace === source,
        (namespace) => namespace.includes(source),
        1,
        { literal: source },
      );
    }
    if (EVERYTHING.has(source)) return new NamespacePattern(always, always, 1);
    if (roughSize(source) > MAX_PATTERN_SIZE) return { error: 'it is too complex' };
    try {
      const size = this.#program(source).programSize();
      const search = (namespace: string): boolean => this.#program(source).test(namespace);
      const start = startOf(source);
      const full = (namespace: string): boolean =>
        namespace.startsWith(start) && this.#program(source).testExact(namespace);
      const verdicts = this.#verdicts.verdicts();
      return new NamespacePattern(this.#mode === 'full' ? full : search, search, size, { verdicts });
    } catch (error) {
      return { error: error instanceof Error ? error.message : String(error) };
    }
  }
}
