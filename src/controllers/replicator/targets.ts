/** What the annotations of an object ask for, and the targets of those that push. Pure. */
import { type Cause, userCause } from '../../copy/model/cause.ts';
import type { Namespaces } from '../../copy/cluster/watch/namespaces.ts';
import { pause } from '../../runtime/pause.ts';
import { type NamePattern, type PatternCache, RulePatterns } from '../../runtime/text/name-patterns.ts';
import { illFormed, type Place } from '../common/annotated/values.ts';
import type { NamespaceSelection } from '../common/namespaces/selection.ts';
import type { LeftOut } from '../common/namespaces/left-out.ts';
import type { Reach } from '../common/namespaces/reach.ts';
import { MAX_TARGETS } from '../common/rules/rule-limits.ts';
import {
  type AnnotationNames,
  type Annotations,
  isName,
  isPathName,
  isRule,
  listItems,
  pushedBy,
  readBool,
  type RuleSettings,
  sourcePath,
  tooLongOn,
  unknownOn,
} from './words.ts';

/**
 * - `broken`: an annotation is invalid or unknown. The copies stay as they are.
 * - `push`: the object is copied. If it has a `from`, a copy gets only its type, and data from the source `from`.
 * - `pull`: the object gets the data of the source `from`.
 */
export type ReplicationRule =
  | { readonly kind: 'broken'; readonly refusal: Cause }
  | { readonly kind: 'push'; readonly targets: Targets; readonly from: string | undefined }
  | { readonly kind: 'pull'; readonly from: string };

/** @returns `undefined`: the object is no rule */
export function readRule(settings: RuleSettings, home: Place, annotations: Annotations): ReplicationRule | undefined {
  const { names, patterns } = settings;
  if (!isRule(settings, annotations)) return undefined;
  // What is too long is not read.
  const tooLong = tooLongOn(settings, 'the object', annotations);
  if (tooLong !== undefined) return { kind: 'broken', refusal: tooLong };
  const unknown = unknownOn(settings, 'the object', annotations);
  const mistakes = unknown === undefined ? [] : [unknown];
  const readable = <Read>(read: Read | Cause | undefined): Read | undefined => {
    if (typeof read !== 'object' || read === null || !('reason' in read)) return read;
    mistakes.push(read);
    return undefined;
  };
  // A copy pushes no copies of its own.
  const isCopy = pushedBy(names, home, annotations) !== undefined;
  const isPush = !isCopy && (names.to in annotations || names.toNamespaces in annotations);
  const targets = isPush ? readable(readTargets(names, patterns, home, annotations)) : undefined;
  const value = annotations[names.from];
  const from = value === undefined ? undefined : readable(sourcePath(names, home, value));
  if (isPush) readable(inheritedProblem(settings, annotations));
  const [first] = mistakes;
  if (first !== undefined) {
    const message = mistakes.map((one) => one.message).join('; ');
    return { kind: 'broken', refusal: userCause(first.reason, message) };
  }
  if (targets !== undefined) return { kind: 'push', targets, from };
  return from === undefined ? undefined : { kind: 'pull', from };
}

/** The refusal of a source with an invalid annotation that its copies would inherit; `undefined`: it has none. */
function inheritedProblem({ names, patterns: cache }: RuleSettings, annotations: Annotations): Cause | undefined {
  for (const name of [names.once, names.allowed]) {
    const value = readBool(annotations, name);
    if (typeof value === 'object') return value;
  }
  const patterns = new RulePatterns(cache);
  for (const item of listItems(annotations[names.allowedNamespaces] ?? '')) {
    const pattern = isName(item) ? undefined : patterns.add(item);
    if (pattern !== undefined && 'error' in pattern)
      return illFormed(names.allowedNamespaces, item, `invalid pattern: ${pattern.error}`);
  }
  return undefined;
}

/** Targets with each of these names in each of these namespaces. There may be too many to list them. */
export interface TargetGroup {
  readonly names: readonly string[];
  readonly namespaces: NamespaceSelection;
}

/** The targets of `replicate-to` and `replicate-to-namespaces`. */
export interface Targets {
  /** One group for the names without a namespace, and one for each name in `<namespace or pattern>/<name>`. */
  readonly groups: readonly TargetGroup[];
  /** Number of targets in named namespaces, even if these do not exist. At most `MAX_TARGETS`. */
  readonly named: number;
  /** An annotation and its value, for the message about too many targets. */
  readonly annotation: readonly [string, string];
}

/** Reads the targets of the object at `home`, which has one of the two annotations. */
export function readTargets(
  names: AnnotationNames,
  cache: PatternCache,
  home: Place,
  annotations: Annotations,
): Targets | Cause {
  const to = annotations[names.to];
  const toNamespaces = annotations[names.toNamespaces];
  const rulePatterns = new RulePatterns(cache);
  /** Adds a name or a pattern to a selection. @returns why the item is refused; `undefined`: it was added */
  const select = (selection: MutableSelection, annotation: string, text: string, item: string): Cause | undefined => {
    if (isName(text)) {
      selection.names.add(text);
      return undefined;
    }
    const pattern = rulePatterns.add(text);
    if ('error' in pattern) return illFormed(annotation, item, `invalid pattern: ${pattern.error}`);
    selection.patterns.push(pattern);
    return undefined;
  };
  const plain: string[] = [];
  const qualified = new Map<string, MutableSelection>();
  for (const item of to === undefined ? [home.name] : new Set(listItems(to))) {
    const [namespace = '', name, ...more] = item.split('/');
    if (name === undefined) {
      if (!isPathName(item)) return illFormed(names.to, item, 'must be a valid object name');
      plain.push(item);
      continue;
    }
    if (more.length > 0 || namespace === '') return illFormed(names.to, item, 'must be <namespace>/<name>');
    if (!isPathName(name)) return illFormed(names.to, item, 'must be <namespace>/<name> with a valid object name');
    const own = qualified.get(name) ?? { names: new Set(), patterns: [] };
    qualified.set(name, own);
    const refusal = select(own, names.to, namespace, item);
    if (refusal !== undefined) return refusal;
  }
  const common: MutableSelection = { names: new Set(), patterns: [] };
  for (const item of toNamespaces === undefined ? [home.namespace] : new Set(listItems(toNamespaces))) {
    if (item.includes('/')) return illFormed(names.toNamespaces, item, 'must not contain a slash');
    const refusal = select(common, names.toNamespaces, item, item);
    if (refusal !== undefined) return refusal;
  }
  const groups: TargetGroup[] = plain.length === 0 ? [] : [{ names: plain, namespaces: common }];
  for (const [name, namespaces] of qualified) groups.push({ names: [name], namespaces });
  const named = groups.reduce((sum, group) => sum + group.names.length * group.namespaces.names.size, 0);
  const annotation: Targets['annotation'] =
    to === undefined ? [names.toNamespaces, toNamespaces ?? ''] : [names.to, to];
  if (named > MAX_TARGETS) {
    const product = plain.length * common.names.size;
    const how = named > product ? '' : ` (${plain.length} names × ${common.names.size} namespaces)`;
    return illFormed(...annotation, `${named} targets${how} are more than the limit of ${MAX_TARGETS} for one object`);
  }
  return { groups, named, annotation };
}

interface MutableSelection extends NamespaceSelection {
  readonly names: Set<string>;
  readonly patterns: NamePattern[];
}

/**
 * The targets in existing namespaces, as `<namespace>/<name>`, without the source; or the refusal if they are too many.
 * @param leftOut gets the namespaces that the rule must not copy into
 */
export async function targetsIn(
  { groups, annotation }: Targets,
  home: Place,
  there: Pick<Namespaces, 'has' | 'names' | 'factsOf'>,
  reach: Reach,
  leftOut: LeftOut,
): Promise<ReadonlySet<string> | Cause> {
  const found = new Set<string>();
  for (const { names, namespaces } of groups) {
    const own = names.every((name) => name === home.name) ? home.namespace : undefined;
    for (const namespace of await reach.reachedBy(namespaces, there, leftOut, own)) {
      for (const name of names) found.add(`${namespace}/${name}`);
      if (found.size > MAX_TARGETS + 1)
        return illFormed(...annotation, `selects more targets than the limit of ${MAX_TARGETS} for one object`);
      await pause();
    }
  }
  found.delete(`${home.namespace}/${home.name}`);
  return found;
}
