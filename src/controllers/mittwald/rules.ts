/**
 * Turns objects with annotations of mittwald/kubernetes-replicator into claims (see `RuleSet`). A rule is such an object,
 * with the key `mittwald:<Kind>/<namespace>/<name>`. It claims only objects of its own kind.
 *
 * A source claims an object of its name in each namespace that its annotations select (mode `own`). An object with
 * `replicate-from` claims itself (mode `fill`), and pushes nothing. A value that cannot be read selects nothing, but it
 * deletes no copy either.
 */
import type { RuleEvent } from '../../copy/engine/controller.ts';
import { warning } from '../../copy/engine/life/warnings.ts';
import { because, type Cause } from '../../copy/model/cause.ts';
import { claimAll, leavingClaims } from '../../copy/model/claim.ts';
import { namespaceOf, parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../copy/model/kind.ts';
import { type Observed, ownersIn } from '../../copy/model/observed.ts';
import type { EngineView, Evaluation, Mark, OrphanAction } from '../../copy/model/rule-set.ts';
import { type NamePattern, PatternCache } from '../../runtime/text/name-patterns.ts';
import { someOf } from '../../runtime/text/texts.ts';
import type { AnnotatedRules } from '../common/annotated/controller.ts';
import { findRule, type FoundRule } from '../common/annotated/found-rule.ts';
import { AnnotatedObjects, type FindObject, type Place } from '../common/annotated/objects.ts';
import { SUSPEND_ANNOTATION, SUSPENDED } from '../common/annotated/report.ts';
import type { RuleScope } from '../common/context.ts';
import { selectsNow, selectsWith } from '../common/namespaces/selection.ts';
import { RuleTargets } from '../common/rules/rule-targets.ts';
import { KeysShape, PushShape, remainsOf } from './shape.ts';
import {
  allows,
  type Dialect,
  dialectOf,
  isAnnotated,
  isOwnCopy,
  isRule,
  markedSource,
  marksText,
  NAMES,
  type PushRule,
  readPush,
  referenceIn,
  userText,
} from './words.ts';

type Annotations = Readonly<Record<string, string>>;

const PUSHED_INTO = because('Conflict', `annotation ${NAMES.from} is ignored: Keyferry pushes into the object`);
/** Most namespaces that an event names, and most patterns that are tried for it. */
const NAMED = 5;
const TRIED = 20;

export class MittwaldRules implements AnnotatedRules {
  readonly name = 'mittwald';
  readonly objects: AnnotatedObjects;
  readonly targets: RuleTargets;
  readonly isKept = isAnnotated;
  readonly #scope: RuleScope;
  readonly #dialect: Dialect;
  readonly #excluded: readonly NamePattern[];
  readonly #graceMs: number;
  /** What the annotations of a source say. */
  readonly #read = new WeakMap<Annotations, PushRule>();

  /** @param graceMs see `RuleSet.graceMs` */
  constructor(scope: RuleScope, find: FindObject, graceMs = 0) {
    const { regex, excludeNamespaces, replicateSecrets, replicateConfigMaps } = scope.config.mittwald;
    this.#scope = scope;
    this.#graceMs = graceMs;
    const kinds = [...(replicateSecrets ? [SECRET] : []), ...(replicateConfigMaps ? [CONFIG_MAP] : [])];
    this.objects = new AnnotatedObjects({ controller: this.name, cluster: scope.cluster, kinds, find });
    this.targets = new RuleTargets(scope, this.name);
    this.#dialect = dialectOf(regex === 'original');
    // As in the original, these match any part of a name.
    const parts = new PatternCache('search');
    this.#excluded = excludeNamespaces.flatMap((item) => {
      const pattern = parts.get(item);
      return 'error' in pattern ? [] : [pattern];
    });
  }

  versionOf({ uid, annotations, owners }: Observed): string | undefined {
    if (!isRule(annotations)) return undefined;
    const marks = NAMES.from in annotations ? marksText(annotations) : '';
    return `${uid} ${annotations[SUSPEND_ANNOTATION]} ${userText(annotations)} ${marks} ${owners ?? ''}`;
  }

  #push(annotations: Annotations): PushRule {
    let rule = this.#read.get(annotations);
    if (rule === undefined) this.#read.set(annotations, (rule = readPush(this.#dialect, annotations, this.#excluded)));
    return rule;
  }

  async evaluate(rule: RuleKey, view: EngineView): Promise<Evaluation | undefined> {
    const found = findRule(this, rule, view);
    if (found === undefined) return undefined;
    const { place, observed, nothing, refused } = found;
    if (observed.annotations[SUSPEND_ANNOTATION] === 'true') return refused(SUSPENDED);
    const source = referenceIn(place, observed.annotations);
    if (source === undefined) return await this.#pushes(rule, found, view);
    this.targets.leave(rule);
    if (isOwnCopy(place, observed)) return refused(PUSHED_INTO);
    return 'reason' in source ? refused(source) : this.#pulls(rule, source, nothing);
  }

  #pulls(rule: RuleKey, source: Place, nothing: Evaluation): Evaluation {
    const { kind, place } = this.objects.of(rule);
    const key = this.objects.keyOf(rule, source);
    const outOfReach = this.targets.pullFrom(rule, source.namespace);
    if (outOfReach !== undefined) return { ...nothing, sources: [key], outOfReach };
    const { allowAll, configMapsUngated } = this.#scope.config.mittwald;
    const isOpen = allowAll || (configMapsUngated && kind === CONFIG_MAP);
    const permits = (given: Annotations): boolean => isOpen || allows(this.#dialect, given, place.namespace);
    const shape = new KeysShape(place, source, permits);
    const claim = { owner: nothing.owner, mode: 'fill', source: key, shape } as const;
    return { ...nothing, claims: [{ target: this.objects.keyOf(rule, place), claim }], sources: [key] };
  }

  async #pushes(rule: RuleKey, found: FoundRule, view: EngineView): Promise<Evaluation> {
    const { config } = this.#scope;
    const { place, observed, owner, nothing, refused } = found;
    const { annotations } = observed;
    const { selection, problems } = this.#push(annotations);
    const [problem] = problems;
    const { targets, refusal, outOfReach } = await this.targets.find(rule, {
      selection,
      mayPush: config.limits.mittwaldPush,
    });
    if (refusal !== undefined) return refused(refusal, outOfReach);
    if (outOfReach?.part === 'all') return { ...nothing, outOfReach };
    const owned = [...view.ownedBy(rule)];
    const keys = new Set<ResourceKey>(
      Array.from(targets, (namespace) => this.objects.keyOf(rule, { namespace, name: place.name })),
    );
    const shape = new PushShape({
      source: place,
      text: userText(annotations),
      stripsLabels: annotations[NAMES.stripLabels] === 'true',
      // Without owners of its own, a source says nothing about those of its copies.
      owners:
        annotations[NAMES.keepOwners] === 'true' && observed.owners !== undefined ? ownersIn(observed) : undefined,
      mergesForeign: config.mittwald.mergeForeign,
    });
    const claims = claimAll(keys, { owner, mode: 'own', source: this.objects.keyOf(rule, place), shape });
    // A mistake must not delete a copy, and neither must a pattern that the original reads in another way.
    const others = owned.filter((target) => !keys.has(target));
    const fell = others.filter((target) => this.#fellOut(annotations, namespaceOf(target)));
    const leaving =
      problem === undefined
        ? leavingClaims(owner, fell, this.#halfAnchored(fell))
        : leavingClaims(owner, others, problem);
    return { ...nothing, outOfReach, claims: [...claims, ...leaving] };
  }

  /** Whether only the original's reading of a pattern matches a namespace. */
  #fellOut(annotations: Annotations, namespace: string): boolean {
    const { half, selection } = this.#push(annotations);
    if (half.length === 0) return false;
    const labels = this.#scope.namespaces.factsOf(namespace)?.labels ?? {};
    if (this.#excluded.some((pattern) => pattern.matches(namespace))) return false;
    return half.some(({ original }) => original.matches(namespace)) && !selectsWith(selection, namespace, labels);
  }

  #halfAnchored(targets: readonly ResourceKey[]): Cause {
    const names = someOf(targets.map((target) => namespaceOf(target)).toSorted(), NAMED);
    return because('MisreadPattern', `only kubernetes-replicator's reading of a pattern matches ${names}`);
  }

  markOn({ annotations }: Observed, target: ResourceKey): Mark | undefined {
    const source = markedSource(annotations);
    if (source === undefined) return undefined;
    const { cluster, kind, namespace, name } = parseResourceKey(target);
    if (source.name !== name || source.namespace === namespace) return undefined;
    const rule = this.objects.ruleOf(resourceKey(cluster, kind, source.namespace, source.name));
    return rule && { rule, merges: true };
  }

  orphanPolicy(rule: RuleKey, observed: Observed): OrphanAction {
    return remainsOf(rule, observed);
  }

  /** What a source that exists has let go needs no grace. */
  graceMs(rule: RuleKey, isLetGo: boolean): number {
    return isLetGo && this.objects.of(rule).observed !== undefined ? 0 : this.#graceMs;
  }

  warningsOf(rule: RuleKey): readonly RuleEvent[] {
    const { observed, place } = this.objects.of(rule);
    if (observed === undefined || !isRule(observed.annotations)) return [];
    const found: Pick<Cause, 'reason' | 'message'>[] = [];
    if (referenceIn(place, observed.annotations) === undefined)
      found.push(...this.#push(observed.annotations).problems);
    const misread = this.misreadOf(rule).map((message) => ({ reason: 'MisreadPattern', message }));
    return [...found, ...misread].map(warning);
  }

  /** Messages about patterns that the original reads in another way, with the namespaces that so fall out. */
  misreadOf(rule: RuleKey): readonly string[] {
    const { observed, place } = this.objects.of(rule);
    if (observed === undefined || referenceIn(place, observed.annotations) !== undefined) return [];
    return this.#push(observed.annotations)
      .half.slice(0, TRIED)
      .flatMap(({ item, original }) => {
        const names = [...this.#scope.namespaces.names()].filter(
          (name) => name !== place.namespace && original.matches(name) && this.#fellOut(observed.annotations, name),
        );
        if (names.length === 0) return [];
        const which = someOf(names.toSorted(), NAMED);
        return `annotation ${NAMES.to}: ${JSON.stringify(item)} matches whole names only; kubernetes-replicator also matches ${which}. Name them, or use --mittwald-regex=original`;
      });
  }

  selects(rule: RuleKey, object: ResourceKey, isQuick = false): boolean | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    const { place, observed, kind: own } = this.objects.of(rule);
    const { annotations } = observed ?? {};
    if (annotations === undefined || !isRule(annotations) || own.kind !== kind || place.name !== name) return undefined;
    if (place.namespace === namespace || referenceIn(place, annotations) !== undefined) return undefined;
    if (isQuick) return true;
    return selectsNow(this.#push(annotations).selection, namespace, this.#scope.namespaces);
  }
}
