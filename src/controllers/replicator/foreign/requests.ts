/**
 * What the objects of one other copier request, which objects its rules reach or use, and its lists of namespaces as lists of the
 * replicator. Pure.
 */
import { type AnnotationNames, isName } from '../rules/annotations.ts';
import { isListed } from '../rules/namespace-lists.ts';
import { backendOf, parseResourceKey, type ResourceKey, resourceKey } from '../../../copy/model/keys.ts';
import { lengthProblem, type Observed } from '../../../copy/model/observed.ts';
import { isDnsLabel, isSubdomain } from '../../../runtime/text/dns-names.ts';
import type { ProgramReader, FindingVerdict } from '../../common/migration.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import { selectorObject } from '../../../runtime/text/label-selector.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';

/** What one object requests of the other program. */
export interface ForeignSource {
  /** Namespaces of the copies, as the replicator lists them. */
  readonly pushesTo?: readonly string[];
  /** Namespaces that may pull: a list of the replicator, or all. */
  readonly allows?: readonly string[] | 'all';
  readonly remarks?: readonly Remark[];
}

export interface Remark {
  readonly verdict: Exclude<FindingVerdict, 'change'>;
  readonly text: string;
  /** The annotation in which a user names what Keyferry cannot read here. The rule may reach any namespace. */
  readonly answer?: keyof Pick<AnnotationNames, 'toNamespaces' | 'allowedNamespaces'>;
}

/** An object that the other program writes. */
export type ForeignCopy =
  /**
   * It made the object. `source`: undefined where its marks do not name one. `cluster`: the name of the source's, of a program that copies
   * between clusters. It does not show whether that is this one: installations share a default name, and a user can write any.
   */
  | { readonly mode: 'push'; readonly source: string | undefined; readonly cluster?: string }
  /** A user made the object, and named the source. */
  | { readonly mode: 'pull'; readonly source: string };

/** How the objects of one program are read. */
export interface Foreign extends Pick<ProgramReader, 'program' | 'image'> {
  /** @param patterns for its lists of namespaces */
  readonly sourceOf: (observed: Observed, patterns: PatternCache) => ForeignSource | undefined;
  readonly copyOf: (observed: Observed) => ForeignCopy | undefined;
}

export class ForeignRequests {
  /** Of the lists of namespaces that the program's objects have. */
  readonly patterns = new PatternCache('full');
  readonly sources = new Map<ResourceKey, ForeignSource>();
  /** An object that requests copies is no copy, whatever its marks say: config-syncer and kubernetes-replicator stamp sources, too. */
  readonly copies = new Map<ResourceKey, ForeignCopy>();
  /** The sources that some object names, with one that does. */
  readonly pulledFrom = new Map<ResourceKey, ResourceKey>();
  readonly #program: string;
  readonly #byName = new Map<string, ResourceKey[]>();
  /** The objects that marks of copies name as their source, with one of the copies. */
  readonly #pushedFrom = new Map<ResourceKey, ResourceKey>();

  constructor({ program, sourceOf, copyOf }: Foreign, objects: ReadonlyMap<ResourceKey, Observed>) {
    this.#program = program;
    const marked: [ResourceKey, ForeignCopy][] = [];
    for (const [key, observed] of objects) {
      const copy = copyOf(observed);
      if (copy !== undefined) marked.push([key, copy]);
      const source = sourceOf(observed, this.patterns);
      if (source === undefined) continue;
      this.sources.set(key, tooLong(observed) ?? source);
      const name = kindAndName(key);
      getOrCreate(this.#byName, name, () => []).push(key);
    }
    for (const [key, copy] of marked) {
      const from = copy.source === undefined ? undefined : keyOf(key, copy.source);
      if (copy.mode === 'push') {
        if (from === key || this.sources.has(key)) continue;
        if (from !== undefined) this.#pushedFrom.set(from, key);
      } else if (from !== undefined) this.pulledFrom.set(from, key);
      this.copies.set(key, copy);
    }
  }

  /** The other sources of this kind and name that push into its namespace, or may. */
  reaching(key: ResourceKey): readonly ResourceKey[] {
    const { namespace } = parseResourceKey(key);
    return (this.#byName.get(kindAndName(key)) ?? []).filter((source) => {
      const { pushesTo = [], remarks = [] } = this.sources.get(source) ?? {};
      const isOpen = remarks.some(({ answer }) => answer === 'toNamespaces');
      return source !== key && (isOpen || isListed(this.patterns, pushesTo, namespace));
    });
  }

  /** The program, if the object has its annotations. */
  programOn(key: ResourceKey): string | undefined {
    return this.sources.has(key) || this.copies.has(key) ? this.#program : undefined;
  }

  /** The rule of the program that makes, fills or uses an object. */
  heldBy(key: ResourceKey): string | undefined {
    const program = this.#program;
    if (this.sources.has(key)) return `it requests copies of ${program} itself`;
    const copy = this.copies.get(key);
    if (copy?.mode === 'pull') return `${program} fills it from ${copy.source}`;
    const puller = this.pulledFrom.get(key);
    if (puller !== undefined) return `${program} fills ${nameOf(puller)} from it`;
    const copied = this.#pushedFrom.get(key);
    if (copied !== undefined) return `the marks of ${program} on ${nameOf(copied)} name it as the source`;
    const [source] = this.reaching(key);
    return source === undefined ? undefined : `${program} may push ${nameOf(source)} here`;
  }
}

/** @param named `<namespace>/<name>`; reflector allows spaces around both @returns `undefined`: no object can have this name */
export function keyOf(beside: ResourceKey, named: string): ResourceKey | undefined {
  const [namespace = '', name = '', ...more] = named.split('/').map((part) => part.trim());
  if (!isDnsLabel(namespace) || !isSubdomain(name) || more.length > 0) return undefined;
  return resourceKey(backendOf(beside), parseResourceKey(beside).kind, namespace, name);
}

export function kindAndName(key: ResourceKey): string {
  const { kind, name } = parseResourceKey(key);
  return `${kind} ${name}`;
}

/** As other programs name an object: `<namespace>/<name>`. */
export function nameOf(key: ResourceKey): string {
  const { namespace, name } = parseResourceKey(key);
  return `${namespace}/${name}`;
}

/** The values of very long annotations are not known. @see lengthProblem */
function tooLong({ annotations }: Observed): ForeignSource | undefined {
  for (const [name, value] of Object.entries(annotations)) {
    const problem = lengthProblem(value);
    if (problem === undefined) continue;
    return { remarks: [{ verdict: 'manual', text: `${name}: ${problem}`, answer: 'toNamespaces' }] };
  }
  return undefined;
}

export interface NamespaceList {
  /** As the replicator reads them. */
  readonly items: readonly string[];
  /** Items that the replicator would refuse, with the reason. */
  readonly invalid: readonly string[];
}

/** Reads the list of another copier. An item that is a name only because of its dots stays a regular expression. */
export function namespaceList(text: string, patterns: PatternCache): NamespaceList {
  const items: string[] = [];
  const invalid: string[] = [];
  for (const part of text.split(',')) {
    const item = part.trim();
    if (item === '') continue;
    const own = isName(item) && item.includes('.') ? `(?:${item})` : item;
    const pattern = patterns.get(own);
    if ('error' in pattern) invalid.push(`"${item}" is not a valid RE2 expression: ${pattern.error}`);
    else if (!items.includes(own)) items.push(own);
  }
  return { items, invalid };
}

/**
 * What a finding says of an annotation that selects namespaces by their labels. Annotations of Keyferry cannot, but a SecretMirror can.
 * @param name of the annotation
 * @param selectors the namespaces have the labels of all
 */
export function selectorText(name: string, ...selectors: readonly string[]): string {
  const why = `${name}: annotations of Keyferry select namespaces by their names, not by labels`;
  try {
    const selector = JSON.stringify(selectorObject(selectors.join(',')));
    return `${why}; write a SecretMirror with spec.destination.namespaceSelector ${selector} in place of the copies, or stay with annotations`;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return `${why}, and the selector is invalid (${error.message})`;
  }
}
