/**
 * Reads and matches label selectors: objects of the Kubernetes API (`metav1.LabelSelector`) and texts (`kubectl get
 * -l`), with the API server's rules for keys, values and operators.
 */
import { isLabelValue, isMetadataKey } from './dns-names.ts';

export type Labels = Readonly<Record<string, string>>;

/** `metav1.LabelSelector`. Without requirements, it selects everything. */
export interface LabelSelector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly LabelRequirement[];
}

interface LabelRequirement {
  readonly key: string;
  /** `In`, `NotIn`, `Exists` or `DoesNotExist`; any text in an object that was stored before the CRD had its schema. */
  readonly operator: string;
  readonly values?: readonly string[];
}

/** A label that a selector reads: its key, and the values that match. */
export interface LabelRead {
  readonly key: string;
  /** `undefined`: any value. */
  readonly values: ReadonlySet<string> | undefined;
}

interface Requirement extends LabelRead {
  /** `true`: the label must be absent, or have none of the values. */
  readonly isNegated: boolean;
}

/** A valid selector. All its requirements must be met. */
export class LabelMatcher {
  readonly #requirements: readonly Requirement[];
  /** The keys of the labels that the selector reads. */
  readonly keys: readonly string[];
  /** Labels that every selected object has. */
  readonly needed: readonly LabelRead[];

  constructor(requirements: readonly Requirement[]) {
    this.#requirements = requirements;
    this.keys = [...new Set(requirements.map(({ key }) => key))];
    this.needed = requirements.filter(({ isNegated }) => !isNegated);
  }

  matches(labels: Labels): boolean {
    return this.#requirements.every(({ key, values, isNegated }) => {
      const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
      const isThere = value !== undefined && (values === undefined || values.has(value));
      return isThere !== isNegated;
    });
  }
}

/** Largest number of requirements in one selector: each requirement is checked for each namespace. */
const MAX_REQUIREMENTS = 100;

/**
 * Checks a selector object.
 * @param field path of the selector: `spec.destination.namespaceSelector`
 * @param problems gets one text for each mistake, which begins with the path of its field
 * @returns `undefined` if there is a mistake
 */
export function readSelector(
  { matchLabels = {}, matchExpressions = [] }: LabelSelector,
  field: string,
  problems: string[],
): LabelMatcher | undefined {
  const before = problems.length;
  const requirements: Requirement[] = [];
  for (const [key, value] of Object.entries(matchLabels)) {
    const path = `${field}.matchLabels`;
    problems.push(...keyProblems(path, key), ...valueProblems(`${path}[${JSON.stringify(key)}]`, value));
    requirements.push({ key, values: new Set([value]), isNegated: false });
  }
  for (const [index, { key, operator, values = [] }] of matchExpressions.entries()) {
    const path = `${field}.matchExpressions[${index}]`;
    problems.push(...keyProblems(`${path}.key`, key));
    for (const [at, value] of values.entries()) problems.push(...valueProblems(`${path}.values[${at}]`, value));
    const hasValues = operator === 'In' || operator === 'NotIn';
    if (!hasValues && operator !== 'Exists' && operator !== 'DoesNotExist') {
      problems.push(`${path}.operator: ${JSON.stringify(operator)} is none of In, NotIn, Exists, DoesNotExist`);
    }
    if (hasValues && values.length === 0) problems.push(`${path}.values: must be specified for ${operator}`);
    if (!hasValues && values.length > 0) problems.push(`${path}.values: must be absent for ${operator}`);
    const isNegated = operator === 'NotIn' || operator === 'DoesNotExist';
    requirements.push({ key, values: hasValues ? new Set(values) : undefined, isNegated });
  }
  if (requirements.length > MAX_REQUIREMENTS) {
    problems.push(`${field}: has ${requirements.length} requirements; the maximum is ${MAX_REQUIREMENTS}`);
  }
  return problems.length === before ? new LabelMatcher(requirements) : undefined;
}

/** A requirement of a selector: `tier=prod`, `tier!=dev`, `tier in (a, b)`, `tier notin (a)`, `tier`, `!tier`. */
const REQUIREMENT =
  /^\s*(?:(!)?\s*([^\s=!(),<>]+)|([^\s=!(),<>]+)\s*(==?|!=)\s*([^\s=!(),]*)|([^\s=!(),<>]+)\s+(in|notin)\s*\(([^()]*)\))\s*$/;

/**
 * Parses a selector as `kubectl get -l` accepts it, except the operators `<` and `>`.
 * @throws RangeError that says what is wrong
 */
export function parseSelector(text: string): LabelMatcher {
  const problems: string[] = [];
  const matcher = readSelector(selectorOf(text), 'selector', problems);
  if (matcher === undefined) throw new RangeError(problems.join('; '));
  return matcher;
}

function selectorOf(text: string): LabelSelector {
  const matchExpressions = splitRequirements(text).map((part): LabelRequirement => {
    const match = REQUIREMENT.exec(part);
    if (match === null) {
      const example = 'write tier, !tier, tier=web, tier!=web or tier in (web,api)';
      throw new RangeError(`${JSON.stringify(part.trim())} is not a requirement of a label selector: ${example}`);
    }
    const [, negation, key, equalKey, equals, value = '', setKey = '', set, list = ''] = match;
    if (key !== undefined) return { key, operator: negation === undefined ? 'Exists' : 'DoesNotExist' };
    if (equalKey !== undefined) return { key: equalKey, operator: equals === '!=' ? 'NotIn' : 'In', values: [value] };
    const values = list.split(',').map((each) => each.trim());
    return { key: setKey, operator: set === 'in' ? 'In' : 'NotIn', values };
  });
  return { matchExpressions };
}

/** Splits at commas that are not in brackets. An empty text has no requirement. */
function splitRequirements(text: string): string[] {
  return text.trim() === '' ? [] : text.split(/,(?![^(]*\))/);
}

function keyProblems(field: string, key: string): string[] {
  return isMetadataKey(key) ? [] : [`${field}: ${JSON.stringify(key.slice(0, 100))} is not a key of a label`];
}

function valueProblems(field: string, value: unknown): string[] {
  if (typeof value === 'string' && isLabelValue(value)) return [];
  return [`${field}: ${JSON.stringify(String(value).slice(0, 100))} is not a value of a label`];
}
