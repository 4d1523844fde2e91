/** The targets of `replicate-to` and `replicate-to-namespaces` together. */
import { NamespaceSet } from '../../common/namespaces/namespace-set.ts';
import { type NamespacePattern, type PatternCache, RulePatterns } from '../../common/namespaces/namespace-patterns.ts';
import type { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import { misreadPatterns, suspectPattern } from '../../common/namespaces/misread-patterns.ts';
import { MAX_TARGETS } from '../../common/rules/target-quota.ts';
import type { Steps } from '../../../runtime/queue/slices.ts';
import {
  type AnnotationNames,
  type Annotations,
  illFormed,
  isName,
  isPathName,
  listItems,
  type Refusal,
} from './annotations.ts';
import type { PermissionRules, Place } from './permission.ts';

/** Names and namespaces are kept apart, because their product may be too large. */
export interface Targets {
  /** Names of copies in each of `namespaces`. */
  readonly names: readonly string[];
  readonly namespaces: NamespaceSet;
  /** Targets given as `<namespace>/<name>`. */
  readonly pinned: ReadonlySet<string>;
  /** Targets given as `<pattern>/<name>`: the patterns of each name. */
  readonly qualified: ReadonlyMap<string, readonly NamespacePattern[]>;
  /** Number of targets without patterns, also in namespaces that do not exist; at most `MAX_TARGETS`. */
  readonly named: number;
  /** The annotation and its value, for the error if there are too many targets. */
  readonly annotation: readonly [string, string];
}

/** @returns `undefined` if the object at `home` has no copies */
export function readTargets(
  names: AnnotationNames,
  cache: PatternCache,
  home: Place,
  annotations: Annotations,
): Targets | Refusal | undefined {
  const to = annotations[names.to];
  const toNamespaces = annotations[names.toNamespaces];
  if (to === undefined && toNamespaces === undefined) return undefined;
  const patterns = new RulePatterns(cache);
  const plain: string[] = [];
  const pinned = new Set<string>();
  const qualified = new Map<string, NamespacePattern[]>();
  for (const item of to === undefined ? [home.name] : new Set(listItems(to))) {
    const [namespace = '', name, ...more] = item.split('/');
    if (name === undefined) {
      if (!isPathName(item)) return illFormed(names.to, item, 'must be a valid object name');
      plain.push(item);
      continue;
    }
    if (more.length > 0 || namespace === '') return illFormed(names.to, item, 'must be <namespace>/<name>');
    if (!isPathName(name)) return illFormed(names.to, item, 'must be <namespace>/<name> with a valid object name');
    if (isName(namespace)) {
      pinned.add(item);
      continue;
    }
    const pattern = patterns.add(namespace);
    if ('error' in pattern) return illFormed(names.to, item, `invalid pattern: ${pattern.error}`);
    const own = qualified.get(name);
    if (own === undefined) qualified.set(name, [pattern]);
    else own.push(pattern);
  }
  const literal = new Set<string>();
  const common: NamespacePattern[] = [];
  for (const item of toNamespaces === undefined ? [home.namespace] : new Set(listItems(toNamespaces))) {
    if (item.includes('/')) return illFormed(names.toNamespaces, item, 'must not contain a slash');
    if (isName(item)) {
      literal.add(item);
      continue;
    }
    const pattern = patterns.add(item);
    if ('error' in pattern) return illFormed(names.toNamespaces, item, `invalid pattern: ${pattern.error}`);
    common.push(pattern);
  }
  const product = plain.length * literal.size;
  const named = product + pinned.size;
  const annotation: Targets['annotation'] =
    to === undefined ? [names.toNamespaces, toNamespaces ?? ''] : [names.to, to];
  if (named > MAX_TARGETS) {
    const how = pinned.size > 0 ? '' : ` (${plain.length} names × ${literal.size} namespaces)`;
    return illFormed(...annotation, `${named} targets${how} are more than the limit of ${MAX_TARGETS} for one object`);
  }
  return { names: plain, namespaces: new NamespaceSet(literal, common), pinned, qualified, named, annotation };
}

/**
 * The targets in existing namespaces, as `<namespace>/<name>`, without the source; a refusal for more than `MAX_TARGETS`. One step for
 * each namespace, because lists may be long.
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
    return illFormed(...annotation, `selects more targets than the limit of ${MAX_TARGETS} for one object`);
  }
  found.delete(`${home.namespace}/${home.name}`);
  return found;
}

/** The namespaces that the targets depend on. */
export function namespacesOf({ namespaces, pinned, qualified }: Targets): readonly NamespaceSet[] {
  const own = new Set(Array.from(pinned, (path) => path.slice(0, path.indexOf('/'))));
  return [namespaces, new NamespaceSet(own, [...qualified.values()].flat())];
}

/** The namespaces that the targets name, without those that only a pattern selects. */
export function namedIn({ names, namespaces, pinned }: Targets): ReadonlySet<string> {
  const own = Array.from(pinned, (path) => path.slice(0, path.indexOf('/')));
  return new Set([...(names.length === 0 ? [] : namespaces.names), ...own]);
}

/** The messages for patterns in valid annotations that match no namespace, and look like a glob or a list. */
export function misreadIn(
  { names, patterns }: PermissionRules,
  annotations: Annotations,
  namespaces: Iterable<string>,
): readonly string[] {
  const suspects = [names.to, names.toNamespaces].flatMap((annotation) =>
    listItems(annotations[annotation] ?? '').flatMap((item) => {
      const [namespace = '', name] = item.split('/');
      if (isName(namespace) || (annotation === names.to && name === undefined)) return [];
      const pattern = patterns.get(namespace);
      return 'error' in pattern ? [] : (suspectPattern(`annotation ${annotation}`, namespace, pattern) ?? []);
    }),
  );
  return misreadPatterns(suspects, namespaces);
}
