/**
 * The rule set of a controller whose rules are annotated Secrets and ConfigMaps, with the keys
 * `<controller>:<Kind>/<namespace>/<name>`. They are in the index of the cluster already, because it watches them, so they
 * are not stored a second time. A rule claims only objects of its own kind. Pure.
 */
import type { Entry } from '../../../copy/book/claim-book.ts';
import type { RuleEvent } from '../../../copy/engine/controller.ts';
import { warning } from '../../../copy/engine/life/warnings.ts';
import type { Cause } from '../../../copy/model/cause.ts';
import { type Claimed, leavingClaims, type Owner, rankOf, type Shape } from '../../../copy/model/claim.ts';
import {
  type ObjectKey,
  parseResourceKey,
  parseRuleKey,
  resourceKey,
  type ResourceKey,
  type RuleKey,
  ruleKeyOfKind,
} from '../../../copy/model/keys.ts';
import type { Kind } from '../../../copy/model/kind.ts';
import type { IsRead, Observed } from '../../../copy/model/observed.ts';
import type { EngineView, Evaluation, Mark, OrphanAction, OutOfReach, RuleSet } from '../../../copy/model/rule-set.ts';
import { pause } from '../../../runtime/pause.ts';
import type { RuleScope } from '../context.ts';
import { type NamespaceSelection, selectsNow } from '../namespaces/selection.ts';
import { RuleTargets, type Wanted } from '../rules/rule-targets.ts';
import { isSuspended, type Place, SUSPEND_ANNOTATION, SUSPENDED } from './values.ts';

export type Annotations = Readonly<Record<string, string>>;

/** Finds an object in the cache; `undefined`: it does not exist. */
export type FindObject = (kind: Kind, namespace: string, name: string) => Observed | undefined;

/** An object that may be a rule. */
interface AnnotatedObject {
  readonly kind: Kind;
  readonly place: Place;
  /** `undefined`: the object does not exist. */
  readonly observed: Observed | undefined;
}

/** A rule that is evaluated. */
export interface FoundRule extends AnnotatedObject {
  readonly rule: RuleKey;
  readonly observed: Observed;
  readonly owner: Owner;
  /** Its copies. */
  readonly owned: () => readonly ResourceKey[];
  /** The evaluation of a rule that claims nothing. */
  readonly nothing: Evaluation;
  /** A mistake deletes nothing: the evaluation of a rule that claims the copies that it has, and leaves them as they are. */
  readonly refused: (refusal: Cause, outOfReach?: OutOfReach) => Evaluation;
}

interface AnnotatedRulesOptions {
  /** @see RuleSet.name */
  readonly name: string;
  readonly kinds: readonly Kind[];
  /** Whether the controller reads an annotation. Called for every object in the cluster, so it must be fast. */
  readonly isRead: IsRead;
  /** @see RuleSet.graceMs */
  readonly graceMs?: number | undefined;
}

export abstract class AnnotatedRules implements RuleSet {
  readonly name: string;
  readonly kinds: readonly Kind[];
  readonly targets: RuleTargets;
  protected readonly scope: RuleScope;
  protected readonly find: FindObject;
  readonly #isRead: IsRead;
  readonly #graceMs: number;

  constructor(scope: RuleScope, find: FindObject, { name, kinds, isRead, graceMs = 0 }: AnnotatedRulesOptions) {
    this.name = name;
    this.kinds = kinds;
    this.targets = new RuleTargets(scope, name);
    this.scope = scope;
    this.find = find;
    this.#isRead = isRead;
    this.#graceMs = graceMs;
  }

  /** The facts of an object that decide on its claims, as text; `undefined`: it is no rule. */
  protected abstract textOf(observed: Observed): string | undefined;

  /** Evaluates a rule that is not suspended. */
  protected abstract evaluated(found: FoundRule): Promise<Evaluation> | Evaluation;

  abstract markOn(observed: Observed, target: ResourceKey): Mark | undefined;

  /** Whether the rule at `place` may make copies of this name. Patterns and labels are not looked at. */
  protected copies(place: Place, _annotations: Annotations, name: string): boolean {
    return name === place.name;
  }

  /** The namespaces that get a copy of this name, if `copies` says yes; `undefined`: the rule makes no copies after all. */
  protected abstract selectionOf(place: Place, annotations: Annotations, name: string): NamespaceSelection | undefined;

  /** What is wrong with the annotations themselves. */
  protected problemsOf(_rule: RuleKey): readonly Cause[] {
    return [];
  }

  /** The claims, where an outcome has a better reason than that of the engine. */
  named(claims: Iterable<Entry>): Iterable<Entry> {
    return claims;
  }

  orphanPolicy(_rule: RuleKey, _observed: Observed): OrphanAction {
    return 'delete';
  }

  /** The events about the annotations themselves; none about outcomes. */
  warningsOf(rule: RuleKey): readonly RuleEvent[] {
    return this.problemsOf(rule).map(warning);
  }

  /** Whether an object with these annotations is kept: a rule, or an object with a mark. */
  isKept(annotations: Annotations = {}): boolean {
    for (const key in annotations) if (this.#isRead(key) !== false) return true;
    return false;
  }

  /** A text that changes when the rule must be evaluated again; `undefined`: the object is no rule. */
  versionOf(observed: Observed): string | undefined {
    const text = this.textOf(observed);
    return text === undefined ? undefined : `${observed.uid} ${observed.annotations[SUSPEND_ANNOTATION]} ${text}`;
  }

  /** What a source that exists has let go needs no grace. */
  graceMs(rule: RuleKey, isLetGo: boolean): number {
    return isLetGo && this.objectOf(rule).observed !== undefined ? 0 : this.#graceMs;
  }

  /** The rule of an object; `undefined`: objects of this kind, or in this cluster, are no rules. */
  ruleOf(object: ResourceKey): RuleKey | undefined {
    return this.ruleBeside(object, parseResourceKey(object));
  }

  /** The rule of the object with this name, of the same kind and in the same cluster as another object. */
  protected ruleBeside(object: ResourceKey, { namespace, name }: Place): RuleKey | undefined {
    const { cluster, kind } = parseResourceKey(object);
    const isServed = cluster === this.scope.cluster && this.kindNamed(kind) !== undefined;
    return isServed ? ruleKeyOfKind(this.name, kind, namespace, name) : undefined;
  }

  /** The object of a rule. @throws TypeError: not a rule key of this controller */
  objectOf(rule: RuleKey): AnnotatedObject {
    const { kind: kindName, namespace, name } = parseRuleKey(rule);
    const kind = this.kindNamed(kindName);
    if (kind === undefined) throw new TypeError(`not a rule key of ${this.name}: ${rule}`);
    return { kind, place: { namespace, name }, observed: this.find(kind, namespace, name) };
  }

  /** The annotations of a rule; `undefined`: the object is no rule. */
  protected annotationsOf(rule: RuleKey): Annotations | undefined {
    const { observed } = this.objectOf(rule);
    return observed && this.textOf(observed) !== undefined ? observed.annotations : undefined;
  }

  /** The key of an object of the same kind, in the same cluster, as the object of a rule. */
  protected keyOf(rule: RuleKey, { namespace, name }: Place): ObjectKey {
    return resourceKey(this.scope.cluster, parseRuleKey(rule).kind, namespace, name);
  }

  protected kindNamed(name: string): Kind | undefined {
    return this.kinds.find(({ kind }) => kind === name);
  }

  async evaluate(rule: RuleKey, view: EngineView): Promise<Evaluation | undefined> {
    const { kind, place, observed } = this.objectOf(rule);
    const version = observed && this.versionOf(observed);
    if (observed === undefined || version === undefined) {
      this.targets.leave(rule);
      return undefined;
    }
    const title = `${kind.kind} ${place.namespace}/${place.name}`;
    const owner: Owner = { key: rule, title, rank: rankOf(observed.created, observed.uid) };
    const nothing: Evaluation = { owner, version, claims: [], sources: [] };
    const owned = (): readonly ResourceKey[] => [...view.ownedBy(rule)];
    // It counts as before in the limits, because its copies stay.
    const refused: FoundRule['refused'] = (refusal, outOfReach) => {
      return { ...nothing, refusal, outOfReach, claims: leavingClaims(owner, owned(), refusal) };
    };
    if (isSuspended(observed.annotations)) return refused(SUSPENDED);
    return await this.evaluated({ rule, kind, place, observed, owner, owned, nothing, refused });
  }

  /**
   * The evaluation of a rule that pushes copies of its object.
   * @param stays why a copy stays as it is, although the rule does not select it: a mistake must not delete a copy.
   *   Default: none stays
   */
  protected async pushed(
    { rule, place, owner, owned, nothing, refused }: FoundRule,
    wanted: Wanted,
    shape: Shape,
    stays?: (copy: ResourceKey) => Cause | undefined,
  ): Promise<Evaluation> {
    const { targets, refusal, outOfReach } = await this.targets.find(rule, wanted);
    if (refusal !== undefined) return refused(refusal, outOfReach);
    if (outOfReach?.part === 'all') return { ...nothing, outOfReach };
    const claim = { owner, mode: 'own', source: this.keyOf(rule, place), shape } as const;
    const claims = new Map<ResourceKey, Claimed>();
    for (const path of targets) {
      const [namespace = '', name = place.name] = path.split('/');
      const target = this.keyOf(rule, { namespace, name });
      claims.set(target, { target, claim });
      await pause();
    }
    if (stays === undefined) return { ...nothing, outOfReach, claims: [...claims.values()] };
    const others = owned().filter((copy) => !claims.has(copy));
    const left = Array.from(Map.groupBy(others, stays), ([cause, copies]) => {
      return cause === undefined ? [] : leavingClaims(owner, copies, cause);
    });
    return { ...nothing, outOfReach, claims: [...claims.values(), ...left.flat()] };
  }

  /** The evaluation of a rule that fills its own object. @param byLabels see `RuleTargets.pullFrom` */
  protected pulled(
    { rule, place, owner, nothing }: FoundRule,
    source: Place,
    shape: Shape,
    byLabels?: boolean,
  ): Evaluation {
    this.targets.leave(rule);
    const sources = [this.keyOf(rule, source)];
    const outOfReach = this.targets.pullFrom(rule, source.namespace, byLabels);
    if (outOfReach !== undefined) return { ...nothing, sources, outOfReach };
    const claim = { owner, mode: 'fill', source: sources[0], shape } as const;
    return { ...nothing, sources, claims: [{ target: this.keyOf(rule, place), claim }] };
  }

  selects(rule: RuleKey, object: ResourceKey): (() => boolean | undefined) | undefined {
    const { place, observed } = this.objectOf(rule);
    const { namespace, name } = parseResourceKey(object);
    const isItself = namespace === place.namespace && name === place.name;
    if (isItself || observed === undefined || object !== this.keyOf(rule, { namespace, name })) return undefined;
    const { annotations } = observed;
    if (!this.copies(place, annotations, name)) return undefined;
    return () => {
      const selection = this.selectionOf(place, annotations, name);
      return selection && selectsNow(selection, namespace, this.scope.namespaces);
    };
  }
}
