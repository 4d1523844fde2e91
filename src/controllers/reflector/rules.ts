/**
 * Turns objects with annotations of reflector into claims (see `RuleSet`). A rule is such an object, with the key
 * `reflector:<Kind>/<namespace>/<name>`. It claims only objects of its own kind.
 *
 * A source claims an automatic mirror in each namespace that both pairs of its annotations select (mode `own`). A direct
 * mirror claims itself (mode `fill`). A value that cannot be read selects nothing, but it deletes no copy either.
 */
import { createHash } from 'node:crypto';

import type { RuleEvent } from '../../copy/engine/controller.ts';
import { warning } from '../../copy/engine/life/warnings.ts';
import { because, type Cause } from '../../copy/model/cause.ts';
import { claimAll, leavingClaims } from '../../copy/model/claim.ts';
import { parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { EngineView, Evaluation, Mark } from '../../copy/model/rule-set.ts';
import type { RuleScope } from '../common/context.ts';
import { misreadPatterns, selectsNow, selectsWith } from '../common/namespaces/selection.ts';
import type { AnnotatedRules } from '../common/annotated/controller.ts';
import { findRule, type FoundRule } from '../common/annotated/found-rule.ts';
import { AnnotatedObjects, type FindObject, type Place } from '../common/annotated/objects.ts';
import { SUSPEND_ANNOTATION, SUSPENDED } from '../common/annotated/report.ts';
import { illFormed } from '../common/annotated/values.ts';
import { RuleTargets } from '../common/rules/rule-targets.ts';
import { AutoShape, DirectShape } from './shape.ts';
import {
  autoSourceOf,
  globs,
  isAnnotated,
  isMadeByReflector,
  isRule,
  listsOfNobody,
  NAMES,
  readSource,
  referenceIn,
  reflectorPatterns,
  type SourceRule,
  userText,
} from './words.ts';

export const REFLECTOR_CONTROLLER = 'reflector';

type Annotations = Readonly<Record<string, string>>;

/** An automatic mirror of reflector has exactly these annotations, and no labels. */
const MIRROR_NAMES: ReadonlySet<string> = new Set([NAMES.reflects, NAMES.autoReflects, NAMES.version, NAMES.at]);

export class ReflectorRules implements AnnotatedRules {
  readonly name = REFLECTOR_CONTROLLER;
  readonly objects: AnnotatedObjects;
  readonly targets: RuleTargets;
  readonly isKept = isAnnotated;
  readonly #scope: RuleScope;
  readonly #isExcluded: (namespace: string) => boolean;
  readonly #patterns = reflectorPatterns();
  /** What the annotations of a source say. They are parsed once for all that pull from it. */
  readonly #read = new WeakMap<Annotations, SourceRule>();

  constructor(scope: RuleScope, find: FindObject) {
    this.#scope = scope;
    this.objects = new AnnotatedObjects({
      controller: this.name,
      cluster: scope.cluster,
      kinds: [SECRET, CONFIG_MAP],
      find,
    });
    this.#isExcluded = globs(scope.config.reflector.excludedNamespaces);
    this.targets = new RuleTargets(scope, this.name);
  }

  versionOf({ uid, annotations }: Observed): string | undefined {
    return isRule(annotations) ? `${uid} ${annotations[SUSPEND_ANNOTATION]} ${userText(annotations)}` : undefined;
  }

  read(annotations: Annotations): SourceRule {
    let rule = this.#read.get(annotations);
    if (rule === undefined) this.#read.set(annotations, (rule = readSource(this.#patterns, annotations)));
    return rule;
  }

  async evaluate(rule: RuleKey, view: EngineView): Promise<Evaluation | undefined> {
    const found = findRule(this, rule, view);
    if (found === undefined) return undefined;
    const { place, observed, nothing, refused } = found;
    const { annotations } = observed;
    if (annotations[SUSPEND_ANNOTATION] === 'true') return refused(SUSPENDED);
    const excluded = this.#excludedCause(place.namespace);
    if (excluded !== undefined) return refused(excluded);
    const mirror = this.#mirroredBy(place, annotations);
    if (mirror === undefined) return await this.#pushes(rule, found, view);
    this.targets.leave(rule);
    return 'reason' in mirror ? refused(mirror) : this.#pulls(rule, mirror, nothing);
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

  #pulls(rule: RuleKey, source: Place, nothing: Evaluation): Evaluation {
    const { place } = this.objects.of(rule);
    const sources = [this.objects.keyOf(rule, source)];
    const refused = this.targets.pullFrom(rule, source.namespace, true);
    const excluded = this.#excludedCause(source.namespace);
    const outOfReach = excluded === undefined ? refused : ({ ...excluded, part: 'all' } as const);
    if (outOfReach !== undefined) return { ...nothing, sources, outOfReach };
    const labels = JSON.stringify(this.#scope.namespaces.factsOf(place.namespace)?.labels ?? {});
    // A digest, because thousands of objects in one namespace may have the same labels.
    const facts = createHash('sha256').update(labels).digest('base64url');
    const permits = (given: Annotations): boolean => this.permits(given, place.namespace);
    const shape = new DirectShape(place, source, permits, facts);
    const claim = { owner: nothing.owner, mode: 'fill', source: sources[0], shape } as const;
    return { ...nothing, claims: [{ target: this.objects.keyOf(rule, place), claim }], sources };
  }

  /** Whether a source with these annotations may be mirrored into a namespace. */
  permits(annotations: Annotations, namespace: string): boolean {
    const { isAllowed, allowed } = this.read(annotations);
    return isAllowed && selectsWith(allowed, namespace, this.#scope.namespaces.factsOf(namespace)?.labels ?? {});
  }

  async #pushes(rule: RuleKey, found: FoundRule, view: EngineView): Promise<Evaluation> {
    const { config } = this.#scope;
    const { place, observed, owner, nothing, refused } = found;
    const { isAllowed, isAuto, targets: selection, problems } = this.read(observed.annotations);
    const [problem] = problems;
    /** A mistake must not delete a copy. So copies that the readable part does not select stay. */
    const left = (cause: Cause, claimed?: ReadonlySet<ResourceKey>): Evaluation['claims'] =>
      leavingClaims(
        owner,
        [...view.ownedBy(rule)].filter((target) => claimed?.has(target) !== true),
        cause,
      );
    if (!isAllowed || !isAuto) {
      this.targets.leave(rule);
      return problem === undefined ? nothing : { ...nothing, claims: left(problem) };
    }
    const { targets, refusal, outOfReach } = await this.targets.find(rule, {
      selection,
      mayPush: config.limits.reflectorPush,
      misread: () => this.misreadOf(rule),
    });
    if (refusal !== undefined) return refused(refusal, outOfReach);
    if (outOfReach?.part === 'all') return { ...nothing, outOfReach };
    const keys = Array.from(targets, (namespace) => this.objects.keyOf(rule, { namespace, name: place.name }));
    const shape = new AutoShape(place, userText(observed.annotations));
    const claims = claimAll(keys, { owner, mode: 'own', source: this.objects.keyOf(rule, place), shape });
    return {
      ...nothing,
      outOfReach,
      claims: problem === undefined ? claims : [...claims, ...left(problem, new Set(keys))],
    };
  }

  #excludedCause(namespace: string): Cause | undefined {
    if (!this.#isExcluded(namespace)) return undefined;
    return because('NotPermitted', `namespace ${namespace} is excluded by --reflector-excluded-namespaces`);
  }

  markOn(observed: Observed, target: ResourceKey): Mark | undefined {
    const { annotations } = observed;
    if (!(NAMES.reflects in annotations)) return undefined;
    const { cluster, kind, ...place } = parseResourceKey(target);
    const source = autoSourceOf(place, annotations);
    const rule = source && this.objects.ruleOf(resourceKey(cluster, kind, source.namespace, source.name));
    return rule && { rule, doubt: doubtOf(observed) };
  }

  orphanPolicy(): 'delete' {
    return 'delete';
  }

  warningsOf(rule: RuleKey): readonly RuleEvent[] {
    const { observed, place } = this.objects.of(rule);
    if (observed === undefined) return [];
    const { annotations } = observed;
    const mirror = this.#mirroredBy(place, annotations);
    const reference = mirror === undefined && !isMadeByReflector(annotations) ? referenceIn(annotations) : undefined;
    const found: Pick<Cause, 'reason' | 'message'>[] = [...this.read(annotations).problems];
    if (reference !== undefined && 'reason' in reference) found.push(reference);
    const misread = this.misreadOf(rule).map((message) => ({ reason: 'MisreadPattern', message }));
    const nobody = listsOfNobody(annotations).map((name): RuleEvent => {
      return { type: 'Normal', reason: 'MisreadPattern', message: `annotation ${name} selects no namespace` };
    });
    return [...[...found, ...misread].map(warning), ...nobody];
  }

  /** Messages about patterns that the user probably meant as a glob. See `misreadPatterns`. */
  misreadOf(rule: RuleKey): readonly string[] {
    const { observed } = this.objects.of(rule);
    if (observed === undefined) return [];
    return misreadPatterns(this.read(observed.annotations).suspects, this.#scope.namespaces.names());
  }

  selects(rule: RuleKey, object: ResourceKey, isQuick = false): boolean | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    const { place, observed, kind: own } = this.objects.of(rule);
    const { annotations } = observed ?? {};
    if (annotations === undefined || own.kind !== kind || place.name !== name) return undefined;
    if (place.namespace === namespace || this.#mirroredBy(place, annotations) !== undefined) return undefined;
    if (isQuick) return true;
    const { isAllowed, isAuto, targets } = this.read(annotations);
    return isAllowed && isAuto ? selectsNow(targets, namespace, this.#scope.namespaces) : undefined;
  }
}

/** Why an object may be no mirror that reflector made; `null`: it looks wholly like one. */
function doubtOf({ annotations, labels }: Observed): string | null {
  if (!annotations[NAMES.version]) return `it has no annotation ${NAMES.version}`;
  const other = [...Object.keys(annotations), ...Object.keys(labels)].find((key) => !MIRROR_NAMES.has(key));
  return other === undefined ? null : `it has ${other}, which reflector does not write`;
}
