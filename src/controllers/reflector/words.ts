/**
 * The annotations of emberstack/kubernetes-reflector, and how their values are read: lists of namespaces, selectors,
 * references. A value that reflector ignores silently is a problem here, and becomes an event. Pure.
 */
import { because, type Cause } from '../../copy/model/cause.ts';
import { isMarkedElsewhere, lengthProblem, PLACE_ANNOTATION, placeText } from '../../copy/model/observed.ts';
import { isDnsLabel, isSubdomain } from '../../runtime/text/dns-names.ts';
import { type LabelMatcher, parseSelector } from '../../runtime/text/label-selector.ts';
import { ANY_NAME, type NamePattern, PatternCache, RulePatterns } from '../../runtime/text/name-patterns.ts';
import { type NamespaceSelection, selectionOf } from '../common/namespaces/selection.ts';
import { illFormed, listItems, type Place, shown } from '../common/annotated/values.ts';

type Annotations = Readonly<Record<string, string>>;

const PREFIX = 'reflector.v1.k8s.emberstack.com/';

/** The annotations that users write on a source. */
const SOURCE_NAMES = {
  allowed: `${PREFIX}reflection-allowed`,
  allowedNamespaces: `${PREFIX}reflection-allowed-namespaces`,
  allowedSelector: `${PREFIX}reflection-allowed-namespaces-selector`,
  auto: `${PREFIX}reflection-auto-enabled`,
  autoNamespaces: `${PREFIX}reflection-auto-namespaces`,
  autoSelector: `${PREFIX}reflection-auto-namespaces-selector`,
} as const;

export const NAMES = {
  ...SOURCE_NAMES,
  /** On a mirror: `<namespace>/<name>` of its source. Users write it on direct mirrors. */
  reflects: `${PREFIX}reflects`,
  /** On a mirror: `True` if reflector made it (an automatic mirror). Until v5 it had the same value as `reflects`. */
  autoReflects: `${PREFIX}auto-reflects`,
  /** On a mirror: the resourceVersion of the source whose data it has. */
  version: `${PREFIX}reflected-version`,
  at: `${PREFIX}reflected-at`,
} as const;

const USER_NAMES = [...Object.values(SOURCE_NAMES), NAMES.reflects];

/** Whether reflector reads an annotation, so that it is always kept; `undefined`: it is never kept. */
export function isReadAnnotation(annotation: string): boolean | undefined {
  return annotation === NAMES.at ? undefined : annotation.startsWith(PREFIX);
}

/** The annotations that decide about the claims of an object, as text. */
export function userText(annotations: Annotations): string {
  return JSON.stringify(USER_NAMES.map((name) => annotations[name] ?? null));
}

/** Whether an object is a rule: a source, also one that may only be pulled, or a direct mirror. */
export function isRule(annotations: Annotations): boolean {
  if (Object.values(SOURCE_NAMES).some((name) => name in annotations)) return true;
  return NAMES.reflects in annotations && !isMadeByReflector(annotations);
}

/** Whether the bookkeeping says that reflector made the mirror. */
export function isMadeByReflector(annotations: Annotations): boolean {
  const auto = annotations[NAMES.autoReflects]?.trim() ?? '';
  return isTrue(auto) || (auto !== '' && auto === annotations[NAMES.reflects]?.trim());
}

/** The source in the marks of an automatic mirror at `home`; `undefined`: they name none, or are for another place. */
export function autoSourceOf(home: Place, annotations: Annotations): Place | undefined {
  if (isMarkedElsewhere(annotations, home)) return undefined;
  // With its place, the copy is ours, whatever somebody wrote into its bookkeeping.
  if (!isMadeByReflector(annotations) && !hasPlace(home, annotations)) return undefined;
  const source = referenceIn(annotations);
  if (source === undefined || 'reason' in source) return undefined;
  return source.name === home.name && source.namespace !== home.namespace ? source : undefined;
}

/** Whether the object is a copy that Keyferry made there. */
export function hasPlace(home: Place, annotations: Annotations): boolean {
  return annotations[PLACE_ANNOTATION] === placeText(home);
}

/** The source that `reflects` names, or what is wrong with the annotation; `undefined`: there is none. */
export function referenceIn(annotations: Annotations): Place | Cause | undefined {
  const text = annotations[NAMES.reflects];
  if (text === undefined) return undefined;
  const [namespace = '', name = '', ...more] = text.split('/').map((part) => part.trim());
  if (isDnsLabel(namespace) && isSubdomain(name) && more.length === 0) return { namespace, name };
  return illFormed(NAMES.reflects, text, 'must be <namespace>/<name>');
}

/** Booleans as .NET reads them. */
export function isTrue(text: string | undefined): boolean {
  return text?.trim().toLowerCase() === 'true';
}

/** What the annotations of a source say. */
export interface SourceRule {
  readonly isAllowed: boolean;
  /** Whether automatic mirrors are made. */
  readonly isAuto: boolean;
  /** The namespaces that may have the data. */
  readonly allowed: NamespaceSelection;
  /** The namespaces that get an automatic mirror: those of `allowed` that are selected for it, too. */
  readonly targets: NamespaceSelection;
  /** Values that cannot be read. Each matches nothing. */
  readonly problems: readonly Cause[];
}

/** Most unreadable items of one list that are reported. */
const MAX_PROBLEMS = 3;

/** The cache of the patterns: as .NET, with look-aheads at the begin, but always over whole names. */
export function reflectorPatterns(): PatternCache {
  return new PatternCache('full', { lookAhead: true });
}

export function readSource(cache: PatternCache, annotations: Annotations): SourceRule {
  const problems: Cause[] = [];
  const patterns = new RulePatterns(cache);
  const boolIn = (name: string): boolean => {
    const text = annotations[name]?.trim() ?? '';
    if (!['', 'true', 'false'].includes(text.toLowerCase()))
      problems.push(illFormed(name, text, 'must be true or false'));
    return isTrue(text);
  };
  const selectionIn = (listName: string, selectorName: string): NamespaceSelection => {
    const [list = '', selector = ''] = [annotations[listName]?.trim(), annotations[selectorName]?.trim()];
    if (selector === '' && list === '') return selectionOf([ANY_NAME]);
    const named = list === '' ? [] : patternsIn(listName, list);
    return { ...selectionOf(named), orLabels: selector === '' ? undefined : matcherIn(selectorName, selector) };
  };
  const patternsIn = (name: string, list: string): NamePattern[] => {
    const problem = lengthProblem(list);
    if (problem !== undefined) problems.push(illFormed(name, undefined, problem));
    const bad: Cause[] = [];
    const found = new Set(problem === undefined ? listItems(list) : []);
    const good = [...found].flatMap((item) => {
      const pattern = patterns.add(item);
      if ('error' in pattern) {
        bad.push(
          isUnsupported(item) ? unsupported(name, item) : illFormed(name, item, `invalid pattern: ${pattern.error}`),
        );
        return [];
      }
      return [pattern];
    });
    problems.push(...bad.slice(0, MAX_PROBLEMS));
    return good;
  };
  const matcherIn = (name: string, text: string): LabelMatcher | undefined => {
    try {
      const problem = lengthProblem(text);
      if (problem !== undefined) throw new RangeError(problem);
      return reflectorSelector(text);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      problems.push(illFormed(name, text, error.message));
      return undefined;
    }
  };
  const [isAllowed, isAuto] = [boolIn(NAMES.allowed), boolIn(NAMES.auto)];
  const allowed = selectionIn(NAMES.allowedNamespaces, NAMES.allowedSelector);
  const targets = { ...selectionIn(NAMES.autoNamespaces, NAMES.autoSelector), and: allowed };
  return { isAllowed, isAuto, allowed, targets, problems };
}

/**
 * A selector in the grammar of reflector: as that of `kubectl get -l`, but no value and no set may be empty.
 * @throws RangeError that says what is wrong
 */
export function reflectorSelector(text: string): LabelMatcher {
  const parts = text
    .split(/,(?![^(]*\))/)
    .map((part) => part.trim())
    .filter((part) => part !== '');
  if (parts.length === 0) throw new RangeError('it has no requirement');
  const empty = parts.find((part) => /=$|[(,]\s*[,)]/.test(part));
  if (empty !== undefined) throw new RangeError(`${JSON.stringify(empty)} has an empty value`);
  return parseSelector(parts.join(','));
}

/** Whether a pattern has what RE2 lacks: look-around other than at the begin, or references to groups. */
function isUnsupported(item: string): boolean {
  return /\(\?<?[=!]|\(\?>|\\[1-9]|\\k</.test(item);
}

function unsupported(annotation: string, item: string): Cause {
  const what = `annotation ${annotation} (${shown(item)}): look-around other than at the begin of the pattern, and references to groups, are not supported; it matches no namespace`;
  return because('Unsupported', what);
}

/** Namespaces by globs: `*` stands for any text, `?` for one character. The case of letters has no meaning. */
export function globs(items: readonly string[]): (namespace: string) => boolean {
  const texts = items.map((item) => {
    const escaped = item.toLowerCase().replaceAll(/[.+^${}()|[\]\\]/g, '\\$&');
    return escaped.replaceAll('*', '.*').replaceAll('?', '.');
  });
  const all = new RegExp(`^(?:${texts.join('|')})$`);
  return (namespace) => items.length > 0 && all.test(namespace);
}
