/**
 * Says which copies the settings of a small cluster allow. Tests of reach compare Keyferry with this oracle. So it is
 * written as simply as possible, and uses no code of Keyferry. A pattern must match the whole name.
 */
import type { SecretMirrorDestination } from '../../src/controllers/mirrors/api.ts';

export interface NamespaceState {
  readonly labels: Readonly<Record<string, string>>;
  /** The value of the annotation `keyferry.dev/accept-from`. */
  readonly acceptFrom?: string | undefined;
}

/** The limits that the administrator sets by flags. */
export interface LimitsState {
  readonly sourcesWith?: string | undefined;
  readonly destinationsWith?: string | undefined;
  readonly destinations?: readonly string[] | undefined;
  readonly excluded?: readonly string[] | undefined;
  readonly requireConsent?: boolean | undefined;
}

/**
 * A selector for one label. Without `values`, any value matches. With `not`, a label with such a value does not match.
 */
export interface SelectorState {
  readonly key: string;
  readonly values?: readonly string[];
  readonly not?: boolean;
}

export interface RuleState {
  readonly home: string;
  readonly source: string;
  /** The name of the copies. */
  readonly name: string;
  readonly namespaces: readonly string[];
  readonly selector?: SelectorState | undefined;
  readonly excluded?: readonly string[] | undefined;
}

/** The field `destination` of a SecretMirror with this state. */
export function destinationOf({ name, namespaces, selector, excluded }: Partial<RuleState>): SecretMirrorDestination {
  const { key = '', values, not = false } = selector ?? {};
  const withValues = { key, operator: not ? ('NotIn' as const) : ('In' as const), values: values ?? [] };
  const without = { key, operator: not ? ('DoesNotExist' as const) : ('Exists' as const) };
  const matchExpressions = [values === undefined ? without : withValues];
  return {
    ...(namespaces && { namespaces }),
    ...(name !== undefined && { name }),
    ...(selector && { namespaceSelector: { matchExpressions } }),
    ...(excluded && { excludedNamespaces: excluded }),
  };
}

/** The copies that a rule is allowed to have, as `<namespace>/<name>`. */
export function allowedCopies(
  rule: RuleState,
  namespaces: ReadonlyMap<string, NamespaceState>,
  limits: LimitsState,
): string[] {
  const { sourcesWith } = limits;
  if (sourcesWith !== undefined && namespaces.get(rule.home)?.labels[sourcesWith] === undefined) return [];
  return [...namespaces]
    .filter(([name, state]) => isSelected(rule, name, state) && isAccepted(rule, name, state, limits))
    .map(([name]) => `${name}/${rule.name}`)
    .filter((copy) => copy !== `${rule.home}/${rule.source}`);
}

function isSelected(
  { namespaces, selector, excluded = [] }: RuleState,
  name: string,
  { labels }: NamespaceState,
): boolean {
  return (
    matches(namespaces, name) && !matches(excluded, name) && (selector === undefined || hasLabel(selector, labels))
  );
}

function hasLabel({ key, values, not = false }: SelectorState, labels: NamespaceState['labels']): boolean {
  const value = labels[key];
  return (value !== undefined && (values === undefined || values.includes(value))) !== not;
}

function isAccepted({ home }: RuleState, name: string, state: NamespaceState, limits: LimitsState): boolean {
  const { labels, acceptFrom } = state;
  if (limits.excluded !== undefined && matches(limits.excluded, name)) return false;
  if (limits.destinations !== undefined && !matches(limits.destinations, name)) return false;
  if (limits.destinationsWith !== undefined && labels[limits.destinationsWith] === undefined) return false;
  if (name === home) return true;
  if (acceptFrom === undefined) return limits.requireConsent !== true;
  return acceptFrom !== '' && acceptFrom !== '(' && matches(acceptFrom.split(','), home);
}

function matches(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => new RegExp(`^(?:${pattern})$`).test(name));
}
