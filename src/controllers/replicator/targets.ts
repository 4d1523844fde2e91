/** Which targets `replicate-to` and `replicate-to-namespaces` mean together. */
import { MAX_PATTERN_SIZE, type NamespacePattern, type PatternCache } from '../../copy/patterns.ts';
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

export interface PatternTarget {
  readonly pattern: NamespacePattern;
  readonly name: string;
}

export interface Targets {
  /** By `<namespace>/<name>`, without repetition and without the source. */
  readonly literals: ReadonlyMap<string, Place>;
  /** May still yield what is among the literals, or the source itself. */
  readonly patterns: readonly PatternTarget[];
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
  const collected = new Collector(cache, home);
  const plain: string[] = [];
  for (const item of to === undefined ? [home.name] : new Set(listItems(to))) {
    const [namespace = '', name, ...more] = item.split('/');
    if (name === undefined) {
      if (!isPathName(item)) return illFormed(names.to, item, 'not a name');
      plain.push(item);
      continue;
    }
    if (more.length > 0 || namespace === '') return illFormed(names.to, item, 'must be <namespace>/<name>');
    if (!isPathName(name)) return illFormed(names.to, item, 'not a name behind the slash');
    const problem = collected.add(namespace, [name]);
    if (problem !== undefined) return illFormed(names.to, item, problem);
  }
  for (const item of toNamespaces === undefined ? [home.namespace] : new Set(listItems(toNamespaces))) {
    if (item.includes('/')) return illFormed(names.toNamespaces, item, 'must not have a slash');
    const problem = collected.add(item, plain);
    if (problem !== undefined) return illFormed(names.toNamespaces, item, problem);
  }
  return collected;
}

class Collector implements Targets {
  readonly literals = new Map<string, Place>();
  readonly patterns: PatternTarget[] = [];
  readonly #cache: PatternCache;
  readonly #home: Place;
  readonly #seen = new Set<string>();
  #size = 0;

  constructor(cache: PatternCache, home: Place) {
    this.#cache = cache;
    this.#home = home;
  }

  /** @returns what is wrong with `namespaces` */
  add(namespaces: string, names: readonly string[]): string | undefined {
    if (isName(namespaces)) {
      for (const name of names) {
        if (namespaces === this.#home.namespace && name === this.#home.name) continue;
        this.literals.set(`${namespaces}/${name}`, { namespace: namespaces, name });
      }
      return undefined;
    }
    const pattern = this.#cache.get(namespaces);
    if ('error' in pattern) return `not a pattern: ${pattern.error}`;
    this.#size += pattern.size;
    if (this.#size > MAX_PATTERN_SIZE) return 'the patterns of this object are too large together';
    for (const name of names) {
      const id = `${namespaces}/${name}`;
      if (this.#seen.has(id)) continue;
      this.#seen.add(id);
      this.patterns.push({ pattern, name });
    }
    return undefined;
  }
}
