/** Which targets `replicate-to` and `replicate-to-namespaces` mean together. */
import { NamespaceSet } from '../common/namespace-set.ts';
import {
  LEAST_PATTERN_SIZE,
  MAX_PATTERN_SIZE,
  type NamespacePattern,
  type PatternCache,
} from '../common/namespace-patterns.ts';
import type { Namespaces } from '../../copy/cluster/namespaces.ts';
import { MAX_TARGETS } from '../common/target-ledger.ts';
import type { Steps } from '../../runtime/slices.ts';
import {
  type AnnotationNames,
  type Annotations,
  illFormed,
  isName,
  isPathName,
  listItems,
  type Refusal,
} from './annotations.ts';
import type { Place } from './permission.ts';

/** Never multiplied: what is asked for is counted first, and then gone through namespace by namespace. */
export interface Targets {
  /** Names that go to each of `namespaces`. */
  readonly names: readonly string[];
  readonly namespaces: NamespaceSet;
  /** `<namespace>/<name>` as they are named. */
  readonly pinned: ReadonlySet<string>;
  /** Names that go to what patterns of their own match. */
  readonly qualified: ReadonlyMap<string, readonly NamespacePattern[]>;
  /** Targets that are named in full, whether their namespaces are there or not; at most `MAX_TARGETS`. */
  readonly named: number;
  /** What is to blame where they are too many: the annotation, and its value. */
  readonly annotation: readonly [string, string];
}

/** What the annotations of the object at `home` ask for. `undefined`: it is no source. */
export function readTargets(
  names: AnnotationNames,
  cache: PatternCache,
  home: Place,
  annotations: Annotations,
): Targets | Refusal | undefined {
  const to = annotations[names.to];
  const toNamespaces = annotations[names.toNamespaces];
  if (to === undefined && toNamespaces === undefined) return undefined;
  const patterns = new Patterns(cache);
  const plain: string[] = [];
  const pinned = new Set<string>();
  const qualified = new Map<string, NamespacePattern[]>();
  for (const item of to === undefined ? [home.name] : new Set(listItems(to))) {
    const [namespace = '', name, ...more] = item.split('/');
    if (name === undefined) {
      if (!isPathName(item)) return illFormed(names.to, item, 'not a name');
      plain.push(item);
      continue;
    }
    if (more.length > 0 || namespace === '') return illFormed(names.to, item, 'must be <namespace>/<name>');
    if (!isPathName(name)) return illFormed(names.to, item, 'not a name behind the slash');
    if (isName(namespace)) {
      pinned.add(item);
      continue;
    }
    const own = qualified.get(name) ?? [];
    qualified.set(name, own);
    const problem = patterns.add(namespace, own);
    if (problem !== undefined) return illFormed(names.to, item, problem);
  }
  const literal = new Set<string>();
  const common: NamespacePattern[] = [];
  for (const item of toNamespaces === undefined ? [home.namespace] : new Set(listItems(toNamespaces))) {
    if (item.includes('/')) return illFormed(names.toNamespaces, item, 'must not have a slash');
    if (isName(item)) {
      literal.add(item);
      continue;
    }
    const problem = patterns.add(item, common);
    if (problem !== undefined) return illFormed(names.toNamespaces, item, problem);
  }
  const product = plain.length * literal.size;
  const named = product + pinned.size;
  const annotation = [
    to === undefined ? names.toNamespaces : names.to,
    to === undefined ? (toNamespaces ?? '') : to,
  ] as const;
  if (named > MAX_TARGETS) {
    const how = pinned.size > 0 ? '' : ` (${plain.length} names × ${literal.size} namespaces)`;
    return illFormed(...annotation, `asks for ${named} targets${how}; an object may have ${MAX_TARGETS} at most`);
  }
  return {
    names: plain,
    namespaces: new NamespaceSet(literal, common),
    pinned,
    qualified,
    named,
    annotation,
  };
}

/**
 * The targets in the namespaces that there are, as `<namespace>/<name>`, without the source. Of more than `MAX_TARGETS` none is
 * made. A step for each namespace, so that long lists hold up nobody.
 */
export function* targetsIn(
  { names, namespaces, pinned, qualified, annotation }: Targets,
  home: Place,
  there: Pick<Namespaces, 'has' | 'names'>,
): Steps<ReadonlySet<string> | Refusal> {
  const found = new Set<string>();
  for (const path of pinned) if (there.has(path.slice(0, path.indexOf('/')))) found.add(path);
  for (const namespace of there.names()) {
    yield;
    if (namespaces.has(namespace)) for (const name of names) found.add(`${namespace}/${name}`);
    for (const [name, patterns] of qualified) {
      if (patterns.some((pattern) => pattern.matches(namespace))) found.add(`${namespace}/${name}`);
    }
    if (found.size <= MAX_TARGETS + 1) continue;
    const problem = `asks for more than ${MAX_TARGETS} targets in the namespaces that there are; an object may have ${MAX_TARGETS} at most`;
    return illFormed(...annotation, problem);
  }
  found.delete(`${home.namespace}/${home.name}`);
  return found;
}

/** The namespaces that targets depend on. */
export function namespacesOf({ namespaces, pinned, qualified }: Targets): readonly NamespaceSet[] {
  const own = new Set(Array.from(pinned, (path) => path.slice(0, path.indexOf('/'))));
  return [namespaces, new NamespaceSet(own, [...qualified.values()].flat())];
}

/** Compiles the patterns of one object, as long as they are not too large together. */
class Patterns {
  readonly #cache: PatternCache;
  #size = 0;

  constructor(cache: PatternCache) {
    this.#cache = cache;
  }

  /** @returns what is wrong with `source` */
  add(source: string, to: NamespacePattern[]): string | undefined {
    const pattern = this.#cache.get(source);
    if ('error' in pattern) return `not a pattern: ${pattern.error}`;
    this.#size += Math.max(pattern.size, LEAST_PATTERN_SIZE);
    if (this.#size > MAX_PATTERN_SIZE) return 'the patterns of this object are too large together';
    to.push(pattern);
    return undefined;
  }
}
