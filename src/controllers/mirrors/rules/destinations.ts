/** Reads which namespaces a SecretMirror selects: by patterns, by labels or by both, except those that it excludes. */
import { type LabelMatcher, readSelector } from '../../../runtime/text/label-selector.ts';
import { ANY_NAME, type NamePattern, type PatternCache, RulePatterns } from '../../../runtime/text/name-patterns.ts';
import { type NamespaceSelection, selectionOf, type Served } from '../../common/namespaces/selection.ts';
import type { LabelSelector, SecretMirrorDestination } from '../api.ts';

export interface Destinations {
  readonly namespaces: NamespaceSelection;
  /** The message for the status if no namespace is selected. */
  readonly unmatched: string;
}

/** The selection of a mirror with a mistake in an exclusion or selector: it makes no copy in a wrong namespace. */
const NOTHING: NamespaceSelection = { names: new Set(), patterns: [] };

/**
 * Reads the selection in a destination. An invalid pattern is ignored. If an exclusion or the selector is invalid, no
 * namespace is selected: without the exclusion, too many namespaces would be.
 * @param served the only namespaces that may contain copies; `undefined`: all
 * @param problems gets one text for each mistake; each text begins with the path of the field
 */
export function readDestinations(
  { namespaces: list = [], namespaceSelector, excludedNamespaces = [] }: SecretMirrorDestination,
  cache: PatternCache,
  served: Served | undefined,
  problems: string[],
): Destinations {
  if (list.length === 0 && namespaceSelector === undefined) {
    problems.push('spec.destination.namespaces: destination namespaces are empty');
  }
  const field = list.length === 0 && namespaceSelector !== undefined ? 'namespaceSelector' : 'namespaces';
  const unmatched = `no other namespace ${served === undefined ? '' : `${served.which} `}matches spec.destination.${field}`;
  const matchers: NamePattern[] = [];
  const rulePatterns = new RulePatterns(cache);
  for (const [index, text] of list.entries()) {
    const field = `spec.destination.namespaces[${index}]`;
    if (text === '') {
      problems.push(`${field}: destination namespace #${index} is empty`);
      continue;
    }
    const pattern = rulePatterns.add(text);
    if (rulePatterns.isFull) {
      problems.push(`${field}: destination namespaces from #${index} on are ignored: the patterns are too complex`);
      break;
    }
    if ('error' in pattern) {
      problems.push(`${field}: destination namespace #${index} has a problem compiling: ${pattern.error}`);
      continue;
    }
    matchers.push(pattern);
  }
  const before = problems.length;
  const labels = namespaceSelector && readLabels(namespaceSelector, served, problems);
  const excluded = readExcluded(excludedNamespaces, rulePatterns, problems);
  if (problems.length > before) return { namespaces: NOTHING, unmatched };
  if (list.length === 0 && labels !== undefined) matchers.push(ANY_NAME);
  return { namespaces: { ...selectionOf(matchers), excluded, labels }, unmatched };
}

function readLabels(selector: LabelSelector, served: Served | undefined, problems: string[]): LabelMatcher | undefined {
  const field = 'spec.destination.namespaceSelector';
  if (served === undefined) return readSelector(selector, field, problems);
  problems.push(`${field}: the labels of the namespaces ${served.which} are not read`);
  return undefined;
}

function readExcluded(
  list: readonly string[],
  rulePatterns: RulePatterns,
  problems: string[],
): NamePattern[] | undefined {
  const excluded: NamePattern[] = [];
  for (const [index, text] of list.entries()) {
    const field = `spec.destination.excludedNamespaces[${index}]`;
    const pattern = text === '' ? { error: 'is empty' } : rulePatterns.add(text);
    if ('error' in pattern) {
      problems.push(`${field}: ${pattern.error}`);
      continue;
    }
    excluded.push(pattern);
  }
  return excluded.length === 0 ? undefined : excluded;
}

/** The selection as users write it in the spec and in flags: patterns, and for example `selector:tier=prod`. */
export function destinationTexts({ excludedNamespaces = [], ...selected }: SecretMirrorDestination): readonly string[] {
  return [...selectionTexts(selected), ...excludedNamespaces.map((pattern) => `except ${pattern}`)];
}

function selectionTexts({ namespaces = [], namespaceSelector }: SecretMirrorDestination): readonly string[] {
  if (namespaceSelector === undefined) return namespaces;
  const { matchLabels = {}, matchExpressions = [] } = namespaceSelector;
  const labels = Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`);
  const expressions = matchExpressions.map(({ key, operator, values = [] }) => {
    if (operator === 'Exists') return key;
    if (operator === 'DoesNotExist') return `!${key}`;
    return `${key} ${operator.toLowerCase()} (${values.join(',')})`;
  });
  const terms = [...labels, ...expressions];
  if (terms.length > 0) return [...namespaces, `selector:${terms.join(',')}`];
  return namespaces.length > 0 ? namespaces : ['all namespaces'];
}
