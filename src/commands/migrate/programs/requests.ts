/**
 * Reads the annotations of one other copier (reflector, for example) on all objects of a cluster: which objects are
 * its sources and its copies, and which objects its rules may write. Pure.
 */
import { type AnnotationNames, isName } from '../../../controllers/replicator/rules/annotations.ts';
import { isListed } from '../../../controllers/replicator/rules/namespace-lists.ts';
import { backendOf, parseResourceKey, type ResourceKey, resourceKey } from '../../../copy/model/keys.ts';
import { lengthProblem, type Observed } from '../../../copy/model/observed.ts';
import { isDnsLabel, isSubdomain } from '../../../runtime/text/dns-names.ts';
import type { ProgramReader, FindingVerdict } from '../program.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import { selectorObject } from '../../../runtime/text/label-selector.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';

/** The copies of one object that its annotations request from the other program. */
export interface ForeignSource {
  /** The namespaces that get copies: the items of a `replicate-to-namespaces`. */
  readonly pushesTo?: readonly string[];
  /** The namespaces whose objects may be filled from this one. */
  readonly allows?: readonly string[] | 'all';
  readonly remarks?: readonly Remark[];
}

export interface Remark {
  readonly verdict: Exclude<FindingVerdict, 'change'>;
  readonly text: string;
  /** Keyferry's annotation in which a user can name the namespaces. Until then, the source may be copied to any. */
  readonly answer?: keyof Pick<AnnotationNames, 'toNamespaces' | 'allowedNamespaces'>;
}

/** An object that the other program writes. */
export type ForeignCopy =
  /**
   * The program made the object. `source`: undefined if no mark names it. `cluster`: the name of the source's cluster.
   * It may be this cluster or another one: several clusters may have the default name, and a user can write any name.
   */
  | { readonly mode: 'push'; readonly source: string | undefined; readonly cluster?: string }
  /** A user made the object and named its source. */
  | { readonly mode: 'pull'; readonly source: string };

/** Reads the objects of one program. */
export interface Foreign extends Pick<ProgramReader, 'program' | 'image'> {
  /** @param patterns parses the program's lists of namespaces @returns `undefined`: the object requests no copies */
  readonly sourceOf: (observed: Observed, patterns: PatternCache) => ForeignSource | undefined;
  readonly copyOf: (observed: Observed) => ForeignCopy | undefined;
}

export class ForeignRequests {
  /** The patterns in the program's lists of namespaces. */
  readonly patterns = new PatternCache('full');
  readonly sources = new Map<ResourceKey, ForeignSource>();
  /** The copies. A source that has the marks of a copy is not among them: two of the programs also mark sources. */
  readonly copies = new Map<ResourceKey, ForeignCopy>();
  /** Each source that fills objects, with one of the objects that it fills. */
  readonly pulledFrom = new Map<ResourceKey, ResourceKey>();
  readonly #program: string;
  readonly #byName = new Map<string, ResourceKey[]>();
  /** Each source that the marks of copies name, with one of these copies. */
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

  /** The other sources with the object's kind and name that push, or may push, into the object's namespace. */
  reaching(key: ResourceKey): readonly ResourceKey[] {
    const { namespace } = parseResourceKey(key);
    return (this.#byName.get(kindAndName(key)) ?? []).filter((source) => {
      const { pushesTo = [], remarks = [] } = this.sources.get(source) ?? {};
      const isOpen = remarks.some(({ answer }) => answer === 'toNamespaces');
      return source !== key && (isOpen || isListed(this.patterns, pushesTo, namespace));
    });
  }

  /** The name of the program if the object is its source or its copy; `undefined`: it is neither. */
  programOn(key: ResourceKey): string | undefined {
    return this.sources.has(key) || this.copies.has(key) ? this.#program : undefined;
  }

  /** Describes the rule of the program that makes, fills or uses an object; `undefined`: no rule does. */
  heldBy(key: ResourceKey): string | undefined {
    const program = this.#program;
    if (this.sources.has(key)) return `its own annotations request copies from ${program}`;
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

/** @param named `<namespace>/<name>`; reflector allows spaces around both parts @returns `undefined`: it is invalid */
export function keyOf(beside: ResourceKey, named: string): ResourceKey | undefined {
  const [namespace = '', name = '', ...more] = named.split('/').map((part) => part.trim());
  if (!isDnsLabel(namespace) || !isSubdomain(name) || more.length > 0) return undefined;
  return resourceKey(backendOf(beside), parseResourceKey(beside).kind, namespace, name);
}

export function kindAndName(key: ResourceKey): string {
  const { kind, name } = parseResourceKey(key);
  return `${kind} ${name}`;
}

/** An object as the annotations of all copiers name it: `<namespace>/<name>`. */
export function nameOf(key: ResourceKey): string {
  const { namespace, name } = parseResourceKey(key);
  return `${namespace}/${name}`;
}

/** Of a very long annotation, Keyferry keeps no value. So the source may request any copy. @see lengthProblem */
function tooLong({ annotations }: Observed): ForeignSource | undefined {
  for (const [name, value] of Object.entries(annotations)) {
    const problem = lengthProblem(value);
    if (problem === undefined) continue;
    return { remarks: [{ verdict: 'manual', text: `${name}: ${problem}`, answer: 'toNamespaces' }] };
  }
  return undefined;
}

export interface NamespaceList {
  /** Items that the replicator accepts. */
  readonly items: readonly string[];
  /** Items that the replicator would refuse, each with the reason. */
  readonly invalid: readonly string[];
}

/** Translates another copier's list. The expression `team.` becomes `(?:team.)`: for the replicator it is a name. */
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
 * The text of a finding about an annotation that selects namespaces by labels. Annotations of Keyferry cannot do that,
 * but a SecretMirror can.
 * @param name of the annotation. @param selectors label selectors; a namespace must match all of them
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
