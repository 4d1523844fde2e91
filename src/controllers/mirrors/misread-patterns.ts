/**
 * Patterns that match no namespace because their author had something else in mind than a regular expression: a glob (`team-*`) or
 * a list in one text (`a,b`). They mean what they say, as in the original; the mirror's users are told. Pure.
 */
import type { NamespacePattern } from '../common/namespace-patterns.ts';

/** A pattern that looks like something else than a regular expression. */
export interface SuspectPattern {
  /** Path in the mirror, pattern and advice, for people. */
  readonly message: string;
  readonly pattern: NamespacePattern;
}

/** Suspects that are told of one mirror. */
const MAX_TOLD = 3;
/** Suspects of one mirror that are tried on all namespaces: there may be a thousand of them, and five thousand namespaces. */
const MAX_TRIED = 20;
/** Characters of a pattern that are shown. */
const MAX_SHOWN = 100;

/** Escapes, classes and counts, in which the characters looked for mean nothing special. */
const NOT_LITERAL = /\\.|\[\^?\]?[^\]]*\]|\{\d+(?:,\d*)?\}/gs;
/** A `*` or `?` after a character of a name: a regular expression hardly repeats that. */
const GLOB = /(?<=[a-z0-9-])[*?]/g;

/** @param field path of the pattern in the mirror; `undefined`: it looks as a regular expression does */
export function suspectPattern(field: string, text: string, pattern: NamespacePattern): SuspectPattern | undefined {
  const literal = text.replaceAll(NOT_LITERAL, '!');
  const shown = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN).toWellFormed()}…` : text;
  const advice = adviceFor(literal, shown);
  if (advice === undefined) return undefined;
  return { message: `${field}: "${shown}" matches no namespace: ${advice}`, pattern };
}

function adviceFor(literal: string, shown: string): string | undefined {
  if (/[, ]/.test(literal)) {
    return 'no namespace has a comma or a space in its name; write each pattern as an item of its own';
  }
  if (literal.search(GLOB) < 0) return undefined;
  const meant = shown.replaceAll(GLOB, (sign) => (sign === '*' ? '.*' : '.'));
  return `it is a regular expression, in which * and ? repeat the character before them; as a glob it would be ${meant}`;
}

/** What is to be said of those suspects that really match none of the namespaces. */
export function misreadPatterns(suspects: readonly SuspectPattern[], namespaces: Iterable<string>): string[] {
  if (suspects.length === 0) return [];
  const names = [...namespaces];
  const misread = suspects.slice(0, MAX_TRIED).filter(({ pattern }) => !names.some((name) => pattern.matches(name)));
  const told = misread.slice(0, MAX_TOLD).map(({ message }) => message);
  const more = misread.length - told.length;
  return more > 0 ? [...told, `${more} more patterns look like globs or lists and match no namespace`] : told;
}
