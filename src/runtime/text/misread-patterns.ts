/**
 * Finds patterns that probably have a mistake. By mistake, people write a glob (`team-*`), a list (`a,b`), a label
 * selector or upper-case letters where Keyferry reads a regular expression of names of namespaces. It usually matches
 * no name. Pure.
 */

/** Escapes, classes, counts, and the begin of special groups. Signs in these parts are no hint to a mistake. */
const NOT_LITERAL = /\\[pP]\{[^}]*\}|\\[pP]\w|\\.|\[\^?\]?[^\]]*\]|\{\d+(?:,\d*)?\}|\(\?(?:P?<\w+>|[a-zA-Z-]+|[=!:])/gs;
/** Signs that lists and label selectors have, but names of namespaces cannot have. */
const SELECTOR_SIGN = /[=!,\s]/;
/** A star after a letter, digit or `-`: probably a glob. In a regular expression it repeats that character. */
const GLOB = /(?<=[a-z0-9-])\*/;
/** Other characters that no name of a namespace has. */
const NO_NAME = /[A-Z_]/;
const IGNORES_CASE = /\(\?[a-zA-Z]*i/;

/** What a pattern probably is; `undefined`: it looks like a regular expression of names. */
export function misreadAs(pattern: string): 'selector' | 'glob' | 'no name' | undefined {
  const literal = pattern.replaceAll(NOT_LITERAL, '.');
  if (SELECTOR_SIGN.test(literal)) return 'selector';
  if (GLOB.test(literal)) return 'glob';
  return NO_NAME.test(IGNORES_CASE.test(pattern) ? literal.toLowerCase() : literal) ? 'no name' : undefined;
}
