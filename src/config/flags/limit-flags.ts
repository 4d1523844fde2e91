/** The limits of an administrator for the rules of all systems, as flags and as variables of the environment. */
import { parseSelector } from '../../runtime/text/label-selector.ts';
import { parsePattern } from '../../runtime/text/whole-patterns.ts';
import { quoted, UsageError } from '../usage-error.ts';
import { flag, type Flag, type FlagTable, type FlagValues, initialValues } from './flags.ts';
import { parseList } from './values.ts';

/** Namespaces by patterns of whole names (`runtime/text/whole-patterns.ts`), or by a label selector (`runtime/text/label-selector.ts`). */
export type NamespaceLimit = { readonly patterns: readonly string[] } | { readonly selector: string };

/** Before a label selector in place of a list of patterns. */
const SELECTOR = 'selector:';

/** An empty value is an error, as in every list. @throws RangeError with the rule for valid values */
function parseLimit(text: string): NamespaceLimit | undefined {
  if (text.startsWith(SELECTOR)) {
    const selector = text.slice(SELECTOR.length);
    parseSelector(selector);
    return { selector };
  }
  const patterns = parseList(text);
  if (patterns.length === 0) throw new RangeError('must have at least one item; omit the flag for the default');
  for (const pattern of patterns) {
    if (pattern.startsWith(SELECTOR)) throw new RangeError(`${SELECTOR} must be the whole value, given once`);
    parsePattern(pattern);
    refuseMistaken(pattern);
  }
  return { patterns };
}

/** Escapes, classes and counts of a pattern, in which a sign stands for itself. */
const NOT_LITERAL = /\\.|\[\^?\]?[^\]]*\]|\{\d+(?:,\d*)?\}/gs;
/** Signs of a label selector, which no name of a namespace has. */
const SELECTOR_SIGN = /[=!\s]/;
/** As a shell writes it. As a regular expression it repeats one character. */
const GLOB = /(?<=[a-z0-9-])\*/;

/**
 * A limit that matches nothing deletes every copy, or excludes nothing. So what is a label selector or a glob in all likelihood is refused,
 * and not only reported as in a rule. @throws RangeError that says what to write
 */
function refuseMistaken(pattern: string): void {
  const literal = pattern.replaceAll(NOT_LITERAL, '.');
  if (SELECTOR_SIGN.test(literal)) {
    throw new RangeError(`${quoted(pattern)} matches no namespace: before a label selector, write ${SELECTOR}`);
  }
  if (GLOB.test(literal)) {
    throw new RangeError(
      `${quoted(pattern)} is a regular expression, in which * repeats one character: for any text, write .*`,
    );
  }
}

function limitFlag(name: string, help: string): Flag<NamespaceLimit | undefined> {
  const how = `a comma-separated list of patterns (RE2) of whole names, may be repeated; or ${SELECTOR} and a label selector`;
  const text = flag.text(name, 'namespaces', `${help}: ${how}`);
  return { ...text, initial: undefined, parse: parseLimit, isList: true, variable: variableOf(name) };
}

/** `KEYFERRY_SOURCE_NAMESPACES` */
function variableOf(name: string): string {
  return `KEYFERRY_${name.toUpperCase().replaceAll('-', '_')}`;
}

function limitSwitch(name: string, help: string, initial: boolean): Flag<boolean> {
  return { ...flag.bool(name, help, initial), variable: variableOf(name) };
}

/** For every command whose controllers copy. */
export const limitFlags = {
  sourceNamespaces: limitFlag('source-namespaces', 'the only namespaces that rules may copy from'),
  destinationNamespaces: limitFlag('destination-namespaces', 'the only namespaces that rules may copy into'),
  excludedNamespaces: limitFlag('excluded-namespaces', 'namespaces that no rule copies into'),
  requireConsent: limitSwitch(
    'require-consent',
    'copy only into namespaces whose annotation keyferry.dev/accept-from names the namespace of the rule',
    false,
  ),
} satisfies FlagTable;

/** Where the replicator can run. */
export const pushFlag = {
  replicatorPush: limitSwitch('replicator-push', 'false: annotations can pull copies, and not push them', true),
} satisfies FlagTable;

const FLAGS = { ...limitFlags, ...pushFlag };

type Limits = FlagValues<typeof FLAGS>;

export type LimitValues = FlagValues<typeof limitFlags> & Partial<FlagValues<typeof pushFlag>>;

/**
 * The limits of a command, with those that it has no flag for at their defaults.
 * @param values `undefined`: the command copies nothing
 * @param namespaces the only namespaces that are served; empty for all
 * @throws UsageError naming a limit that needs what Keyferry does not read
 */
export function limitsConfig(values: LimitValues | undefined, namespaces: readonly string[] = []): Limits {
  const limits: Limits = { ...initialValues(FLAGS), ...values };
  if (namespaces.length === 0) return limits;
  refuseSelectors(limits, '--namespaces reads no labels of namespaces');
  if (!limits.requireConsent) return limits;
  throw new UsageError(`--${FLAGS.requireConsent.name}: --namespaces reads no annotations of namespaces`);
}

/** @param why no selector can be served @throws UsageError naming the flag of a limit that is a selector */
export function refuseSelectors(limits: Limits, why: string): void {
  for (const key of ['sourceNamespaces', 'destinationNamespaces', 'excludedNamespaces'] as const) {
    const limit = limits[key];
    if (limit !== undefined && 'selector' in limit) throw new UsageError(`--${FLAGS[key].name}: ${why}; use patterns`);
  }
}
