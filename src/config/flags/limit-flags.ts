/** The limits of an administrator for the rules of all controllers: flags and environment variables. */
import { parseSelector } from '../../runtime/text/label-selector.ts';
import { misreadAs } from '../../runtime/text/misread-patterns.ts';
import { parsePattern } from '../../runtime/text/whole-patterns.ts';
import { quoted, UsageError } from '../usage-error.ts';
import { flag, type Flag, type FlagTable, type FlagValues, initialValues, mapValues, variableOf } from './flags.ts';
import { parseList } from './values.ts';

/** A limit names namespaces by patterns of whole names (`runtime/text/whole-patterns.ts`), or by a label selector. */
export type NamespaceLimit = { readonly patterns: readonly string[] } | { readonly selector: string };

/** The prefix of a value that is a label selector, not a list of patterns. */
const SELECTOR = 'selector:';
const PATTERNS = 'a comma-separated list of patterns (RE2) of whole names, may be repeated';
/** Why a limit cannot be a selector for some controllers. */
export const NO_LABELS = 'the controllers of SyncSecrets read no labels of namespaces';

/**
 * An empty value is an error, as in all lists, and so is an empty selector: a variable of the user's shell may be unset.
 * @throws RangeError with the rule for valid values
 */
function parseLimit(text: string): NamespaceLimit | undefined {
  if (!text.startsWith(SELECTOR)) return parsePatterns(text);
  const selector = text.slice(SELECTOR.length);
  if (parseSelector(selector).keys.length > 0) return { selector };
  throw new RangeError(`${SELECTOR} must have at least one requirement; omit the flag for the default`);
}

/** As `parseLimit`, for controllers that read no labels of namespaces. */
function parsePatterns(text: string): NamespaceLimit {
  if (text.startsWith(SELECTOR)) throw new RangeError(`${NO_LABELS}; use patterns`);
  const patterns = parseList(text);
  if (patterns.length === 0) throw new RangeError('must have at least one item; omit the flag for the default');
  for (const pattern of patterns) {
    if (pattern.startsWith(SELECTOR)) throw new RangeError(`${SELECTOR} must be the whole value, given once`);
    parsePattern(pattern);
    refuseMistaken(pattern);
  }
  return { patterns };
}

/**
 * Refuses a pattern that very likely is a label selector or a glob. Such a mistake in a rule is only reported. But a
 * limit that matches nothing deletes every copy, or excludes nothing. @throws RangeError that says what to write
 */
function refuseMistaken(pattern: string): void {
  const mistake = misreadAs(pattern);
  if (mistake === 'selector') {
    throw new RangeError(`${quoted(pattern)} matches no namespace: before a label selector, write ${SELECTOR}`);
  }
  if (mistake === 'glob') {
    throw new RangeError(
      `${quoted(pattern)} is a regular expression, in which * repeats one character: for any text, write .*`,
    );
  }
}

function limitFlag(name: string, help: string): Flag<NamespaceLimit | undefined> {
  const text = flag.text(name, 'namespaces', `${help}: ${PATTERNS}`);
  return { ...text, initial: undefined, parse: parsePatterns, separator: ',', variable: variableOf(name) };
}

function limitSwitch(name: string, help: string, initial: boolean): Flag<boolean> {
  return { ...flag.bool(name, help, initial), variable: variableOf(name) };
}

/** For the commands of SyncSecrets. */
export const patternLimitFlags = {
  sourceNamespaces: limitFlag('source-namespaces', 'the only namespaces that rules may copy from'),
  destinationNamespaces: limitFlag('destination-namespaces', 'the only namespaces that rules may copy into'),
  excludedNamespaces: limitFlag('excluded-namespaces', 'namespaces that no rule copies into'),
} satisfies FlagTable;

function orSelector(one: Flag<NamespaceLimit | undefined>): Flag<NamespaceLimit | undefined> {
  const help = `${one.help}; or ${SELECTOR} and a label selector, but not with --namespaces or controllers of SyncSecrets`;
  return { ...one, help, parse: parseLimit };
}

/** For all commands whose controllers copy. */
export const limitFlags = {
  ...(mapValues(patternLimitFlags, orSelector) as typeof patternLimitFlags),
  requireConsent: limitSwitch(
    'require-consent',
    'copy only into namespaces whose annotation keyferry.dev/accept-from names the namespace of the rule',
    false,
  ),
} satisfies FlagTable;

function pushSwitch(controller: string): Flag<boolean> {
  return limitSwitch(`${controller}-push`, 'false: annotations can pull copies, but cannot push them', true);
}

/** For the commands that can run controllers of annotations. */
export const pushFlags = {
  replicatorPush: pushSwitch('replicator'),
  reflectorPush: pushSwitch('reflector'),
  mittwaldPush: pushSwitch('mittwald'),
} satisfies FlagTable;

/** For the commands whose controllers replace a copier. Not a limit, but a switch of the administrator, too. */
export const orphanFlags = {
  adoptOrphans: limitSwitch(
    'adopt-orphans',
    'delete the copies that an original made and whose source is gone, as the original does at its start (default: they are kept, and status lists them)',
    false,
  ),
} satisfies FlagTable;

const FLAGS = { ...limitFlags, ...pushFlags, ...orphanFlags };

type Limits = FlagValues<typeof FLAGS>;

export type LimitValues = Partial<Limits>;

/** The limits that are set, as flags, for the log: `--source-namespaces=a,b`; `undefined`: none. */
export function limitsInForce(limits: Limits): string | undefined {
  const flags = Object.entries(limits).flatMap(([key, value]) => {
    const { name, initial } = FLAGS[key as keyof Limits];
    if (value === initial) return [];
    if (typeof value !== 'object') return [`--${name}=${value}`];
    return [`--${name}=${'selector' in value ? `${SELECTOR}${value.selector}` : value.patterns.join(',')}`];
  });
  return flags.join(' ') || undefined;
}

/**
 * The limits of a command. Flags that it lacks have their defaults.
 * @param values `undefined`: the command copies nothing
 * @param namespaces the only served namespaces; empty: all
 * @throws UsageError, with the limit that needs labels or annotations which Keyferry does not read
 */
export function limitsConfig(values: LimitValues | undefined, namespaces: readonly string[] = []): Limits {
  const limits: Limits = { ...initialValues(FLAGS), ...values };
  if (namespaces.length === 0) return limits;
  refuseSelectors(limits, '--namespaces reads no labels of namespaces');
  if (!limits.requireConsent) return limits;
  throw new UsageError(`--${FLAGS.requireConsent.name}: --namespaces reads no annotations of namespaces`);
}

/** @param why reason for the error @throws UsageError, with the flag whose limit is a selector */
export function refuseSelectors(limits: Limits, why: string): void {
  for (const key of ['sourceNamespaces', 'destinationNamespaces', 'excludedNamespaces'] as const) {
    const limit = limits[key];
    if (limit !== undefined && 'selector' in limit) throw new UsageError(`--${FLAGS[key].name}: ${why}; use patterns`);
  }
}
