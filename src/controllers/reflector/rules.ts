/**
 * Turns objects with annotations of reflector into claims (see `AnnotatedRules`).
 *
 * A source claims an automatic mirror in each namespace that both pairs of its annotations select (mode `own`). A direct
 * mirror claims itself (mode `fill`). A value that cannot be read selects nothing, but it deletes no copy either.
 */
import { createHash } from 'node:crypto';

import { because, type Cause } from '../../copy/model/cause.ts';
import { leavingClaims } from '../../copy/model/claim.ts';
import { parseResourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation, Mark } from '../../copy/model/rule-set.ts';
import { getOrCreate } from '../../runtime/maps.ts';
import { AnnotatedRules, type Annotations, type FindObject, type FoundRule } from '../common/annotated/rules.ts';
import { illFormed, type Place } from '../common/annotated/values.ts';
import type { RuleScope } from '../common/context.ts';
import { type NamespaceSelection, selectsWith } from '../common/namespaces/selection.ts';
import { AutoShape, DirectShape } from './shape.ts';
import {
  autoSourceOf,
  globs,
  isMadeByReflector,
  isReadAnnotation,
  isRule,
  isTrue,
  NAMES,
  readSource,
  referenceIn,
  reflectorPatterns,
  type SourceRule,
  userText,
} from './words.ts';

/** An automatic mirror of reflector has exactly these annotations, and no labels. */
const MIRROR_NAMES: ReadonlySet<string> = new Set([NAMES.reflects, NAMES.autoReflects, NAMES.version, NAMES.at]);

export class ReflectorRules extends AnnotatedRules {
  readonly #isExcluded: (namespace: string) => boolean;
  readonly #patterns = reflectorPatterns();
  /** What the annotations of a source say. They are parsed once for all that pull from it. */
  readonly #read = new WeakMap<Annotations, SourceRule>();

  constructor(scope: RuleScope, find: FindObject) {
    super(scope, find, { name: 'reflector', kinds: [SECRET, CONFIG_MAP], isRead: isReadAnnotation });
    this.#isExcluded = globs(scope.config.reflector.excludedNamespaces);
  }

  protected textOf({ annotations }: Observed): string | undefined {
    return isRule(annotations) ? userText(annotations) : undefined;
  }

  read(annotations: Annotations): SourceRule {
    return getOrCreate(this.#read, annotations, () => readSource(this.#patterns, annotations));
  }

  protected async evaluated(found: FoundRule): Promise<Evaluation> {
    const { place, observed, refused } = found;
    const excluded = this.#excludedCause(place.namespace);
    if (excluded !== undefined) return refused(excluded);
    const mirror = this.#mirroredBy(place, observed.annotations);
    if (mirror === undefined) return await this.#pushes(found);
    return 'reason' in mirror ? refused(mirror) : this.#pulls(found, mirror);
  }

  /** The source of a direct mirror, or why it has none; `undefined`: the object is no direct mirror. */
  #mirroredBy(place: Place, annotations: Annotations): Place | Cause | undefined {
    const source = referenceIn(annotations);
    if (source === undefined || isMadeByReflector(annotations)) return undefined;
    // As in reflector: `a/b/c` is no reference at all, but a name alone makes a mirror that is never filled.
    if ('reason' in source) return annotations[NAMES.reflects]?.includes('/') === true ? undefined : source;
    const isItself = source.namespace === place.namespace && source.name === place.name;
    return isItself
      ? illFormed(NAMES.reflects, annotations[NAMES.reflects] ?? '', 'refers to the object itself')
      : source;
  }

  #pulls(found: FoundRule, source: Place): Evaluation {
    const { place } = found;
    const labels = JSON.stringify(this.scope.namespaces.factsOf(place.namespace)?.labels ?? {});
    // A digest, because thousands of objects in one namespace may have the same labels.
    const facts = createHash('sha256').update(labels).digest('base64url');
    const permits = (given: Annotations): boolean => this.permits(given, place.namespace);
    const pulled = this.pulled(found, source, new DirectShape(place, source, permits, facts), true);
    const excluded = this.#excludedCause(source.namespace);
    return excluded === undefined ? pulled : { ...pulled, claims: [], outOfReach: { ...excluded, part: 'all' } };
  }

  /** Whether a source with these annotations may be mirrored into a namespace. */
  permits(annotations: Annotations, namespace: string): boolean {
    const { isAllowed, allowed } = this.read(annotations);
    return isAllowed && selectsWith(allowed, namespace, this.scope.namespaces.factsOf(namespace)?.labels ?? {});
  }

  async #pushes(found: FoundRule): Promise<Evaluation> {
    const { rule, place, observed, owner, owned, nothing } = found;
    const { isAllowed, isAuto, targets: selection, problems } = this.read(observed.annotations);
    const [problem] = problems;
    if (!isAllowed || !isAuto) {
      this.targets.leave(rule);
      return problem === undefined ? nothing : { ...nothing, claims: leavingClaims(owner, owned(), problem) };
    }
    const wanted = { selection, mayPush: this.scope.config.limits.reflectorPush };
    const stays = problem && ((): Cause => problem);
    return await this.pushed(found, wanted, new AutoShape(place, userText(observed.annotations)), stays);
  }

  #excludedCause(namespace: string): Cause | undefined {
    if (!this.#isExcluded(namespace)) return undefined;
    return because('NotPermitted', `namespace ${namespace} is excluded by --reflector-excluded-namespaces`);
  }

  markOn(observed: Observed, target: ResourceKey): Mark | undefined {
    if (!(NAMES.reflects in observed.annotations)) return undefined;
    const source = autoSourceOf(parseResourceKey(target), observed.annotations);
    const rule = source && this.ruleBeside(target, source);
    return rule && { rule, doubt: doubtOf(observed) };
  }

  protected override problemsOf(rule: RuleKey): readonly Cause[] {
    const { place } = this.objectOf(rule);
    const annotations = this.annotationsOf(rule) ?? {};
    const isMirror = this.#mirroredBy(place, annotations) !== undefined || isMadeByReflector(annotations);
    const reference = isMirror ? undefined : referenceIn(annotations);
    const { problems } = this.read(annotations);
    return reference !== undefined && 'reason' in reference ? [...problems, reference] : problems;
  }

  protected override copies(place: Place, annotations: Annotations, name: string): boolean {
    const isAuto = isTrue(annotations[NAMES.allowed]) && isTrue(annotations[NAMES.auto]);
    return isAuto && name === place.name && this.#mirroredBy(place, annotations) === undefined;
  }

  protected selectionOf(_place: Place, annotations: Annotations): NamespaceSelection {
    return this.read(annotations).targets;
  }
}

/** Why an object may be no mirror that reflector made; `null`: it looks wholly like one. */
function doubtOf({ annotations, labels }: Observed): string | null {
  if (!annotations[NAMES.version]) return `it has no annotation ${NAMES.version}`;
  const other = [...Object.keys(annotations), ...Object.keys(labels)].find((key) => !MIRROR_NAMES.has(key));
  return other === undefined ? null : `it has ${other}, which reflector does not write`;
}
