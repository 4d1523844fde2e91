/**
 * The choices of a SecretMirror about its copies: name, keys, type, labels and annotations. A mistake stops all writes
 * of the mirror, because copies without the choice could get more than the author wants. Every field is checked,
 * because objects may be older than the schema of the CRD.
 */
import { createHash } from 'node:crypto';
import { because, type Cause } from '../../../copy/model/cause.ts';
import { type ChosenKey, KeySelection } from '../../../copy/model/key-selection.ts';
import { isForbiddenType } from '../../../copy/model/kind.ts';
import { clipped, someOf } from '../../../runtime/text/texts.ts';
import { isDataKey, isMetadataKey, isLabelValue, nameProblems } from '../../../runtime/text/dns-names.ts';
import { isMark } from '../../common/excluded-metadata.ts';
import { type NamePattern, type PatternCache, RulePatterns } from '../../../runtime/text/name-patterns.ts';
import { type DestinationType, NAMESPACES_ONLY, type SecretMirrorDestination, type SourceType } from '../api.ts';

type Texts = Readonly<Record<string, string>>;

export interface Choices {
  /** A digest of all choices except the name (the keys of the targets show the name). `undefined`: no choices. */
  readonly id: string | undefined;
  /** The name of the copies; `undefined`: the source's name. */
  readonly name: string | undefined;
  readonly keys: KeySelection | undefined;
  /** The type of the copies; `undefined`: the source's type. */
  readonly type: string | undefined;
  readonly labels: Texts;
  readonly annotations: Texts;
  /** Decides whether copies get a label of the source; `undefined`: `isCopied` decides. */
  readonly copiesLabel: Travels | undefined;
  readonly copiesAnnotation: Travels | undefined;
  /** Number of instructions in the patterns of `copiesLabel` and `copiesAnnotation`. */
  readonly patternSize: number;
}

type Travels = (key: string, value: string) => boolean;

/** The choices of all mirrors without a choice. They share this object, which saves memory. */
export const NOTHING_CHOSEN: Choices = {
  id: undefined,
  name: undefined,
  keys: undefined,
  type: undefined,
  labels: {},
  annotations: {},
  copiesLabel: undefined,
  copiesAnnotation: undefined,
  patternSize: 0,
};

const MAX_KEYS = 100;
/**
 * Maximum size of the compiled patterns of `copyLabels` and `copyAnnotations` together, in instructions. 50 usual
 * patterns have 1,000. @see MAX_MATCHING
 */
const MAX_PATTERN_SIZE = 1000;
const MAX_NAMED = 5;
const MAX_SHOWN = 100;

/**
 * Reads the choices in a destination.
 * @param patterns the cache that compiles the patterns for keys of labels and annotations
 * @param problems gets one text for each mistake; each text begins with the path of the field
 */
export function choicesOf(
  destination: SecretMirrorDestination,
  { from, to }: { readonly from: SourceType; readonly to: DestinationType },
  patterns: PatternCache,
  problems: string[],
): Choices {
  const { name, keys, secretType = '', labels, annotations, copyLabels, copyAnnotations } = destination;
  const refuse = (field: string, why: string): unknown => problems.push(`spec.destination.${field}: ${why}`);
  if (to === 'vault') {
    const unused = NAMESPACES_ONLY.filter((field) => destination[field] !== undefined);
    for (const field of unused) refuse(field, 'is only for a destination of type namespaces');
    if (from === 'configmap') refuse('type', 'a ConfigMap can only be copied to namespaces');
  }
  if (name) problems.push(...nameProblems('spec.destination.name', name));
  if (isForbiddenType(secretType)) refuse('secretType', `Secrets of type ${secretType} are not allowed`);
  if (from === 'configmap' && secretType !== '') refuse('secretType', 'is not for ConfigMaps, which have no type');
  if (from === 'vault' && (copyLabels ?? copyAnnotations) !== undefined) {
    refuse(
      copyLabels === undefined ? 'copyAnnotations' : 'copyLabels',
      'is not for Vault, whose entries have no metadata',
    );
  }
  // For copies from Vault without chosen keys, the content of the source already has the type.
  const isTyped = to === 'namespaces' && (from === 'secret' || (from === 'vault' && keys !== undefined));
  const type = isTyped ? secretType || (from === 'vault' ? 'Opaque' : undefined) : undefined;
  const made = [keys, type, labels, annotations, copyLabels, copyAnnotations];
  const compiled = new RulePatterns(patterns, MAX_PATTERN_SIZE);
  const isMade = made.some((choice) => choice !== undefined);
  if (!isMade && !name) return NOTHING_CHOSEN;
  return {
    id: isMade ? createHash('sha256').update(JSON.stringify(made)).digest('base64url') : undefined,
    name: name || undefined,
    keys: keys === undefined ? undefined : selectionOf(keys, to, refuse),
    type,
    labels: added('labels', labels, refuse),
    annotations: added('annotations', annotations, refuse),
    copiesLabel: travels('copyLabels', copyLabels, compiled, refuse),
    copiesAnnotation: travels('copyAnnotations', copyAnnotations, compiled, refuse),
    patternSize: compiled.size,
  };
}

type Refuse = (field: string, why: string) => unknown;

function selectionOf(keys: unknown, to: DestinationType, refuse: Refuse): KeySelection {
  const list: readonly unknown[] = Array.isArray(keys) ? keys : [];
  if (list.length === 0 || list.length > MAX_KEYS) refuse('keys', `must be a list of 1 to ${MAX_KEYS} keys`);
  const taken = new Set<string>();
  const chosen = list.map((item, index): ChosenKey => {
    const { from, to: name = from, optional } = Object(item) as Readonly<Record<string, unknown>>;
    if (typeof from !== 'string' || from === '') refuse(`keys[${index}].from`, 'must be specified');
    const isValid = typeof name === 'string' && (to === 'vault' ? name !== '' : isDataKey(name));
    if (!isValid) refuse(`keys[${index}].to`, `${shown(name)} is not a key that a copy can have`);
    if (taken.has(String(name))) refuse(`keys[${index}].to`, `two keys have the name ${shown(name)} in the copies`);
    taken.add(String(name));
    return { from: String(from), to: String(name), optional: optional === true };
  });
  return new KeySelection(chosen, (missing) => keyNotFound(missing, chosen));
}

function keyNotFound(keys: readonly string[], chosen: readonly ChosenKey[]): Cause {
  const names = someOf(keys.map(shown), MAX_NAMED);
  const index = chosen.findIndex(({ from, optional }) => from === keys[0] && !optional);
  return because(
    'KeyNotFound',
    `spec.destination.keys[${index}].from: the source has no ${keys.length === 1 ? 'key' : 'keys'} ${names}; nothing is written`,
  );
}

function added(field: 'labels' | 'annotations', map: unknown, refuse: Refuse): Texts {
  const entries = Object.entries(Object(map ?? {}) as Readonly<Record<string, unknown>>);
  for (const [key, value] of entries) {
    if (!isMetadataKey(key)) refuse(field, `${shown(key)} is not a valid key`);
    else if (isMark(key)) refuse(field, `${shown(key)} is for Keyferry or another copier, and cannot be set`);
    const isValid = typeof value === 'string' && (field === 'annotations' || isLabelValue(value));
    if (!isValid) refuse(field, `the value of ${shown(key)} is not valid`);
  }
  return Object.fromEntries(entries.map(([key, value]) => [key, String(value)]));
}

function travels(
  field: 'copyLabels' | 'copyAnnotations',
  list: unknown,
  compiled: RulePatterns,
  refuse: Refuse,
): Travels | undefined {
  if (list === undefined) return undefined;
  const patterns: NamePattern[] = [];
  for (const [index, text] of (Array.isArray(list) ? list : [list]).entries()) {
    const pattern = typeof text === 'string' ? compiled.add(text) : { error: 'not a text' };
    if (!('error' in pattern)) patterns.push(pattern);
    else {
      refuse(`${field}[${index}]`, `has a problem compiling: ${pattern.error}`);
      if (compiled.isFull) break;
    }
  }
  return (key) => !isMark(key) && patterns.some((pattern) => pattern.matchesWhole(key));
}

function shown(text: unknown): string {
  return JSON.stringify(clipped(String(text), MAX_SHOWN));
}
