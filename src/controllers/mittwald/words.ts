/**
 * The annotations of mittwald/kubernetes-replicator, and how their values are read. What the original ignores or only logs
 * is a problem here, which becomes an event. Pure.
 */
import type { Cause } from '../../copy/model/cause.ts';
import { MERGED_FROM, lengthProblem, type Observed, PLACE_ANNOTATION, placeText } from '../../copy/model/observed.ts';
import { isDnsLabel, isSubdomain } from '../../runtime/text/dns-names.ts';
import { parseBool } from '../../runtime/text/go-bool.ts';
import { type LabelMatcher, parseSelector } from '../../runtime/text/label-selector.ts';
import { type NamePattern, PatternCache, RulePatterns } from '../../runtime/text/name-patterns.ts';
import { illFormed, listItems, type Place } from '../common/annotated/values.ts';
import { OWN_PREFIX } from '../common/excluded-metadata.ts';
import { type NamespaceSelection, selectionOf } from '../common/namespaces/selection.ts';

type Annotations = Readonly<Record<string, string>>;

export const MITTWALD_PREFIX = 'replicator.v1.mittwald.de/';

/** The annotations that users write. */
const USER_NAMES = {
  /** On an object of a user: `<namespace>/<name>` of its source. */
  from: `${MITTWALD_PREFIX}replicate-from`,
  allowed: `${MITTWALD_PREFIX}replication-allowed`,
  allowedNamespaces: `${MITTWALD_PREFIX}replication-allowed-namespaces`,
  to: `${MITTWALD_PREFIX}replicate-to`,
  toMatching: `${MITTWALD_PREFIX}replicate-to-matching`,
  stripLabels: `${MITTWALD_PREFIX}strip-labels`,
  keepOwners: `${MITTWALD_PREFIX}keep-owner-references`,
} as const;

export const NAMES = {
  ...USER_NAMES,
  at: `${MITTWALD_PREFIX}replicated-at`,
  version: `${MITTWALD_PREFIX}replicated-from-version`,
  /** The keys that came from the source. */
  keys: `${MITTWALD_PREFIX}replicated-keys`,
} as const;

/** On a copy: `<namespace>/<name>` of its source. The original names it nowhere. */
export const COPY_OF = `${OWN_PREFIX}replicated-from`;
/** On an object that pulls: the source whose keys it got last. Keys go only with that source. */
export const FILLED_FROM = `${OWN_PREFIX}filled-from`;
/** On an object of a user: the namespaces from which it accepts keys. */
export const ACCEPT_PUSH = `${OWN_PREFIX}accept-push`;

const OWN_NAMES: ReadonlySet<string> = new Set([COPY_OF, MERGED_FROM, FILLED_FROM, ACCEPT_PUSH]);

/** Whether Keyferry reads an annotation, so that it is always kept; `undefined`: it is never kept. */
export function isReadAnnotation(annotation: string): boolean | undefined {
  if (annotation === NAMES.at) return undefined;
  return annotation.startsWith(MITTWALD_PREFIX) || OWN_NAMES.has(annotation);
}

/** The annotations that decide about the claims of an object, as text. */
export function userText(annotations: Annotations): string {
  return JSON.stringify(Object.values(USER_NAMES).map((name) => annotations[name] ?? null));
}

export function isRule(annotations: Annotations): boolean {
  return [NAMES.from, NAMES.to, NAMES.toMatching].some((name) => name in annotations);
}

/** The source in our mark on an object; `undefined`: it has none. */
export function markedSource(annotations: Annotations): Place | undefined {
  const [namespace = '', name = '', ...more] = (annotations[COPY_OF] ?? annotations[MERGED_FROM])?.split('/') ?? [];
  return isDnsLabel(namespace) && isSubdomain(name) && more.length === 0 ? { namespace, name } : undefined;
}

/** Our marks on an object, as text. */
export function marksText(annotations: Annotations): string {
  return [COPY_OF, MERGED_FROM, PLACE_ANNOTATION].map((name) => annotations[name]).join(' ');
}

/** Whether the object is a copy that Keyferry made or adopted there. */
export function isOwnCopy(home: Place, { annotations }: Pick<Observed, 'annotations'>): boolean {
  return annotations[PLACE_ANNOTATION] === placeText(home) && markedSource(annotations) !== undefined;
}

/** The source that `replicate-from` names, or what is wrong with it; `undefined`: there is no such annotation. */
export function referenceIn(home: Place, annotations: Annotations): Place | Cause | undefined {
  const text = annotations[NAMES.from];
  if (text === undefined) return undefined;
  const [namespace = '', name = '', ...more] = text.split('/');
  if (!isDnsLabel(namespace) || !isSubdomain(name) || more.length > 0)
    return illFormed(NAMES.from, text, 'must be <namespace>/<name>');
  const isItself = namespace === home.namespace && name === home.name;
  return isItself ? illFormed(NAMES.from, text, 'refers to the object itself') : { namespace, name };
}

/** Whether an object of a user accepts keys from a namespace. */
export function acceptsFrom(namespace: string, annotations: Annotations): boolean {
  return listItems(annotations[ACCEPT_PUSH] ?? '').includes(namespace);
}

/** Patterns as the original means them, and as it reads them. */
export interface Dialect {
  /** Reads patterns over whole names. */
  readonly whole: PatternCache;
  /** Reads patterns as the original: `a|b` is all that begins with `a` or ends with `b`. */
  readonly original: PatternCache;
  /** `--mittwald-regex=original`. */
  readonly isOriginal: boolean;
}

export function dialectOf(isOriginal: boolean): Dialect {
  return { whole: new PatternCache('full'), original: new PatternCache('search'), isOriginal };
}

/** A list of namespaces in an annotation. */
export interface NamespaceList {
  readonly patterns: readonly NamePattern[];
  /** Items that the original reads in another way, with what it matches. */
  readonly half: readonly { readonly item: string; readonly original: NamePattern }[];
  readonly problems: readonly Cause[];
}

/** Most unreadable items of one list that are reported. */
const MAX_PROBLEMS = 3;

export function readList({ whole, original, isOriginal }: Dialect, annotation: string, list: string): NamespaceList {
  const problem = lengthProblem(list);
  if (problem !== undefined) return { patterns: [], half: [], problems: [illFormed(annotation, undefined, problem)] };
  const patterns: NamePattern[] = [];
  const half: { item: string; original: NamePattern }[] = [];
  const problems: Cause[] = [];
  const compiled = { whole: new RulePatterns(whole), original: new RulePatterns(original) };
  for (const item of new Set(listItems(list))) {
    const text = meant(item);
    const read = compiled.whole.add(text);
    const search = isHalfAnchored(text) ? compiled.original.add(anchored(text)) : read;
    if ('error' in read || 'error' in search) {
      const why = 'error' in read ? read.error : 'error' in search ? search.error : '';
      problems.push(illFormed(annotation, item, `invalid pattern: ${why}`));
      continue;
    }
    patterns.push(isOriginal ? search : read);
    if (search !== read && !isOriginal) half.push({ item, original: search });
  }
  return { patterns, half, problems: problems.slice(0, MAX_PROBLEMS) };
}

/** A star at the begin repeats the anchor that the original puts before it, so it matches any text. */
function meant(item: string): string {
  return item.replace(/^\^?\*/, '.*');
}

function anchored(item: string): string {
  return `${item.startsWith('^') ? '' : '^'}${item}${item.endsWith('$') ? '' : '$'}`;
}

/** Whether a pattern has alternatives outside of groups: the anchors of the original then belong to the outer ones. */
function isHalfAnchored(item: string): boolean {
  let depth = 0;
  for (const [token] of item.matchAll(/\\.|\[\^?\]?[^\]]*\]|[()|]/g)) {
    if (token === '(') depth += 1;
    else if (token === ')') depth -= 1;
    else if (token === '|' && depth === 0) return true;
  }
  return false;
}

/** Whether a source allows a namespace to pull from it: it needs both annotations. */
export function allows(dialect: Dialect, annotations: Annotations, namespace: string): boolean {
  if (!isTrue(annotations[NAMES.allowed])) return false;
  const { patterns } = readList(dialect, NAMES.allowedNamespaces, annotations[NAMES.allowedNamespaces] ?? '');
  return patterns.some((pattern) => pattern.matches(namespace));
}

/** Booleans as Go reads them. Any other text means no. */
function isTrue(text: string | undefined): boolean {
  try {
    return text !== undefined && parseBool(text);
  } catch {
    return false;
  }
}

/** What the annotations of a source say of its copies. */
export interface PushRule {
  readonly selection: NamespaceSelection;
  readonly half: NamespaceList['half'];
  readonly problems: readonly Cause[];
}

/** @param excluded the namespaces that no annotation pushes into */
export function readPush(dialect: Dialect, annotations: Annotations, excluded: readonly NamePattern[]): PushRule {
  const { patterns, half, problems } = readList(dialect, NAMES.to, annotations[NAMES.to] ?? '');
  const matching = matcherIn(annotations[NAMES.toMatching]);
  const orLabels = matching === undefined || 'reason' in matching ? undefined : matching;
  const all = matching !== undefined && 'reason' in matching ? [...problems, matching] : problems;
  return { selection: { ...selectionOf(patterns), orLabels, excluded }, half, problems: all };
}

/** The empty selector selects every namespace. */
function matcherIn(text: string | undefined): LabelMatcher | Cause | undefined {
  if (text === undefined) return undefined;
  const problem = lengthProblem(text);
  if (problem !== undefined) return illFormed(NAMES.toMatching, undefined, problem);
  try {
    return parseSelector(text.replaceAll('\n', ' '));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return illFormed(NAMES.toMatching, text, error.message);
  }
}
