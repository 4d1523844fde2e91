/**
 * Decides which namespaces a rule selects. (`reach.ts` decides whether the rule may copy into them.) The evaluation of
 * a rule (`selectedIn`) and the search for the rules of a changed namespace (`RuleTargets.rulesFor`) both use `selects`,
 * so they cannot disagree. Pure.
 */
import type { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import type { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import { pause } from '../../../runtime/pause.ts';
import type { LabelMatcher, Labels } from '../../../runtime/text/label-selector.ts';
import { misreadAs } from '../../../runtime/text/misread-patterns.ts';
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

/** Whether labels of namespaces decide. */
export function readsLabels({ labels, orLabels, and }: NamespaceSelection): boolean {
  const isRead = [labels, orLabels].some((matcher) => matcher !== undefined && matcher.keys.length > 0);
  return isRead || (and !== undefined && readsLabels(and));
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

/**
 * The existing namespaces of the selection. Pauses often, because there may be thousands of namespaces. If a namespace
 * changes meanwhile, the result may be wrong, but the change starts another evaluation of the rule.
 */
export async function selectedIn(selection: NamespaceSelection, there: There): Promise<ReadonlySet<string>> {
  // A selection by names alone needs no look at the other namespaces.
  const byNames = [selection, selection.and].find((one) => one?.patterns.length === 0 && one.orLabels === undefined);
  const selected = new Set<string>();
  for (const namespace of byNames?.names ?? there.names(selection.labels)) {
    if (selectsNow(selection, namespace, there)) selected.add(namespace);
    await pause();
  }
  return selected;
}

/** Whether a name or pattern matches any part of the namespace's name, as in ktsstudio/mirrors. */
export function occursIn({ names, patterns }: NamespaceSelection, namespace: string): boolean {
  return [...names].some((name) => namespace.includes(name)) || patterns.some((one) => one.occursIn(namespace));
}

/** The namespaces that Keyferry serves, if `--namespaces` restricts them. */
export type Served = Pick<ServedNamespaces, 'which' | 'has'>;

/** Whether a pattern looks like a glob, a list or a label selector. Its author probably means other namespaces. */
export function isMisread({ patterns, and }: Pick<NamespaceSelection, 'patterns' | 'and'>): boolean {
  return patterns.some(({ source }) => misreadAs(source) !== undefined) || (and !== undefined && isMisread(and));
}
