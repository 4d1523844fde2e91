/**
 * Decides which namespaces a rule selects. (`reach.ts` decides whether the rule may copy into them.) The evaluation of
 * a rule (`selectedIn`) and the search for the rules of a changed namespace (`Reach.concernedBy`) both use `selects`,
 * so they cannot disagree. Pure.
 *
 * By mistake, a user may write a glob (`team-*`) or a list (`a,b`) instead of a regular expression. Keyferry reads it
 * as a regular expression, as the originals do, which usually matches no namespace. `misreadPatterns` finds such
 * patterns, so that conditions and events can report them.
 */
import type { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import type { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { pause } from '../../../runtime/pause.ts';
import type { LabelMatcher, Labels } from '../../../runtime/text/label-selector.ts';
import { clipped } from '../../../runtime/text/texts.ts';
import type { NamePattern } from '../../../runtime/text/name-patterns.ts';

/** The namespaces that a rule selects. */
export interface NamespaceSelection {
  readonly names: ReadonlySet<string>;
  readonly patterns: readonly NamePattern[];
  /** A namespace that matches one of these is not selected, even if it is in `names`. */
  readonly excluded?: readonly NamePattern[] | undefined;
  /** Only namespaces with these labels are selected. */
  readonly labels?: LabelMatcher | undefined;
  /** Namespaces with these labels are selected, too, whatever their names are. */
  readonly orLabels?: LabelMatcher | undefined;
  /** Only namespaces that this selects, too, are selected. It has no `and` of its own. */
  readonly and?: NamespaceSelection | undefined;
}

/** The keys of all labels that a selection reads. */
export function labelKeysOf({ labels, orLabels, and }: NamespaceSelection): readonly string[] {
  return [...(labels?.keys ?? []), ...(orLabels?.keys ?? []), ...(and === undefined ? [] : labelKeysOf(and))];
}

/** Puts patterns that are plain names into `names`, because a look-up there is faster than a match. */
export function selectionOf(patterns: readonly NamePattern[]): NamespaceSelection {
  return {
    names: new Set(patterns.flatMap(({ literal }) => literal ?? [])),
    patterns: [...new Set(patterns.filter(({ literal }) => literal === undefined))],
  };
}

/** Selects all namespaces that one of the selections selects. These must have names and patterns alone. */
export function unionOf(selections: readonly NamespaceSelection[]): NamespaceSelection {
  return {
    names: new Set(selections.flatMap(({ names }) => [...names])),
    patterns: [...new Set(selections.flatMap(({ patterns }) => patterns))],
  };
}

/** Whether a selection can select the namespace by its name. The labels of the namespace are not checked. */
export function selects(selection: NamespaceSelection, namespace: string): boolean {
  const { excluded, orLabels, and } = selection;
  if (and !== undefined && !selects(and, namespace)) return false;
  const isFound = orLabels !== undefined || isNamed(selection, namespace);
  return isFound && excluded?.some((pattern) => pattern.matches(namespace)) !== true;
}

function isNamed({ names, patterns }: NamespaceSelection, namespace: string): boolean {
  return names.has(namespace) || patterns.some((pattern) => pattern.matches(namespace));
}

/** Whether the selection selects a namespace with these labels. */
export function selectsWith(selection: NamespaceSelection, namespace: string, labels: Labels): boolean {
  const { excluded, orLabels, and } = selection;
  if (and !== undefined && !selectsWith(and, namespace, labels)) return false;
  if (selection.labels?.matches(labels) === false) return false;
  if (orLabels?.matches(labels) !== true && !isNamed(selection, namespace)) return false;
  return excluded?.some((pattern) => pattern.matches(namespace)) !== true;
}

/** The known namespaces of a cluster. */
export type There = Pick<Namespaces, 'has' | 'names' | 'factsOf'>;

/** Whether the selection selects a namespace, and the namespace exists and has matching labels at present. */
export function selectsNow(selection: NamespaceSelection, namespace: string, there: There): boolean {
  return there.has(namespace) && selectsWith(selection, namespace, there.factsOf(namespace)?.labels ?? {});
}

/** Above this number of instructions, a pattern takes so long to compile that a pause follows. */
const LARGE = 50;

/**
 * Matches the large patterns of a selection, with pauses. Their results are then in the cache, so that `selects` is
 * fast. It takes pattern by pattern, because the programs of all rules together do not fit into their cache.
 */
export async function matchLarge(
  { patterns, excluded = [], and }: NamespaceSelection,
  namespaces: () => Iterable<string>,
): Promise<void> {
  for (const pattern of [...patterns, ...excluded, ...(and?.patterns ?? [])]) {
    if (pattern.size <= LARGE) continue;
    for (const namespace of namespaces()) {
      pattern.matches(namespace);
      await pause();
    }
  }
}

/**
 * The existing namespaces of the selection. Pauses often, because there may be thousands of namespaces. If a namespace
 * changes meanwhile, the result may be wrong, but the change starts another evaluation of the rule.
 */
export async function selectedIn(selection: NamespaceSelection, there: There): Promise<ReadonlySet<string>> {
  // A selection by names alone needs no look at the other namespaces.
  const byNames = [selection, selection.and].find((one) => one?.patterns.length === 0 && one.orLabels === undefined);
  const candidates = (): Iterable<string> => byNames?.names ?? there.names(selection.labels);
  await matchLarge(selection, candidates);
  const selected = new Set<string>();
  for (const namespace of candidates()) {
    if (selectsNow(selection, namespace, there)) selected.add(namespace);
    await pause();
  }
  return selected;
}

/** Whether a name or pattern matches any part of the namespace's name, as in ktsstudio/mirrors. */
export function occursIn({ names, patterns }: NamespaceSelection, namespace: string): boolean {
  return [...names].some((name) => namespace.includes(name)) || patterns.some((one) => one.occursIn(namespace));
}

/** A pattern that looks like a glob or a list. */
export interface SuspectPattern {
  /** Names the field or annotation and the pattern, and gives advice. */
  readonly message: string;
  readonly pattern: NamePattern;
}

/** Maximum number of patterns of one rule that are reported. */
const MAX_REPORTED = 3;
/** Maximum number of suspect patterns that are matched. A rule may have 1,000, and a cluster 5,000 namespaces. */
const MAX_TRIED = 20;
/** Maximum number of characters of a pattern in a message. */
const MAX_SHOWN = 100;

/** Parts of a regular expression (escapes, classes, counts) where a comma or star is no sign of a list or a glob. */
const NOT_LITERAL = /\\.|\[\^?\]?[^\]]*\]|\{\d+(?:,\d*)?\}/gs;
/** A `*` or `?` directly after a letter, a digit or `-`: usual in a glob, unusual in a regular expression for names. */
const GLOB = /(?<=[a-z0-9-])[*?]/g;
/** Characters that no name of a namespace has. */
const UPPER = /[A-Z_]/;
const GROUP_NAME = /\(\?P?<\w+>/g;
const IGNORES_CASE = /\(\?[a-zA-Z]*i/;

/** The report on a pattern that looks like a glob or a list; `undefined`: it looks like a regular expression. */
export function suspectPattern(field: string, text: string, pattern: NamePattern): SuspectPattern | undefined {
  const literal = text.replaceAll(NOT_LITERAL, '!');
  const shown = clipped(text, MAX_SHOWN);
  const advice = adviceFor(literal, shown);
  if (advice === undefined) return undefined;
  return { message: `${field}: "${shown}" matches no namespace: ${advice}`, pattern };
}

/** The namespaces that Keyferry serves, if `--namespaces` restricts them. */
export type Served = Pick<ServedNamespaces, 'which' | 'has'>;

/** The report on a namespace that Keyferry does not serve; `undefined`: it is served, or `pattern` is no plain name. */
export function unservedNamespace(
  field: string,
  pattern: NamePattern,
  served: Served | undefined,
): SuspectPattern | undefined {
  const { literal } = pattern;
  if (literal === undefined || served === undefined || served.has(literal)) return undefined;
  const message = `${field}: "${literal}" is not one of the namespaces ${served.which}`;
  return { message, pattern };
}

function adviceFor(literal: string, shown: string): string | undefined {
  if (/^ | $/.test(literal) && !/[, ]/.test(literal.trim())) {
    return 'namespace names contain no spaces; remove those around it';
  }
  if (/[, ]/.test(literal)) {
    return 'namespace names contain no commas or spaces; write each pattern as a separate list item, or in an annotation after a comma';
  }
  if (UPPER.test(literal.replaceAll(GROUP_NAME, '')) && !IGNORES_CASE.test(literal)) {
    return 'namespace names have only lower-case letters, digits and -';
  }
  if (literal.search(GLOB) < 0) return undefined;
  const meant = shown.replaceAll(GLOB, (sign) => (sign === '*' ? '.*' : '.'));
  return `it is a regular expression: * repeats the preceding character, and ? makes it optional; to match as a glob, write ${meant}`;
}

/** The messages on the suspect patterns that match none of the namespaces. */
export function misreadPatterns(suspects: readonly SuspectPattern[], namespaces: Iterable<string>): string[] {
  if (suspects.length === 0) return [];
  const names = [...namespaces];
  const there = new Set(names);
  const tried = suspects.filter(({ pattern }) => !there.has(pattern.literal ?? '')).slice(0, MAX_TRIED);
  const misread = tried.filter(({ pattern }) => !names.some((name) => pattern.matches(name)));
  const reported = misread.slice(0, MAX_REPORTED).map(({ message }) => message);
  const more = misread.length - reported.length;
  return more > 0 ? [...reported, `${more} more patterns look like globs or lists and match no namespace`] : reported;
}
