/**
 * Turns objects with annotations of mittwald/kubernetes-replicator into claims (see `AnnotatedRules`).
 *
 * A source claims an object of its name in each namespace that its annotations select (mode `own`). An object with
 * `replicate-from` claims itself (mode `fill`), and pushes nothing. A value that cannot be read selects nothing, but it
 * deletes no copy either.
 */
import { because, type Cause } from '../../copy/model/cause.ts';
import { namespaceOf, parseResourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../copy/model/kind.ts';
import { type Observed, ownersIn } from '../../copy/model/observed.ts';
import type { Evaluation, Mark, OrphanAction } from '../../copy/model/rule-set.ts';
import { getOrCreate } from '../../runtime/maps.ts';
import { type NamePattern, PatternCache } from '../../runtime/text/name-patterns.ts';
import { someOf } from '../../runtime/text/texts.ts';
import { AnnotatedRules, type Annotations, type FindObject, type FoundRule } from '../common/annotated/rules.ts';
import type { Place } from '../common/annotated/values.ts';
import type { RuleScope } from '../common/context.ts';
import { type NamespaceSelection, selectsWith } from '../common/namespaces/selection.ts';
import { KeysShape, PushShape, remainsOf } from './shape.ts';
import {
  allows,
  type Dialect,
  dialectOf,
  isOwnCopy,
  isReadAnnotation,
  isRule,
  markedSource,
  marksText,
  NAMES,
  type PushRule,
  readPush,
  referenceIn,
  userText,
} from './words.ts';

const PUSHED_INTO = because('Conflict', `annotation ${NAMES.from} is ignored: Keyferry pushes into the object`);
const FELL_OUT = because('MisreadPattern', "only kubernetes-replicator's reading of a pattern matches its namespace");
/** Most namespaces that an event names, and most patterns that are tried for it. */
const NAMED = 5;
const TRIED = 20;

export class MittwaldRules extends AnnotatedRules {
  readonly #dialect: Dialect;
  readonly #excluded: readonly NamePattern[];
  /** What the annotations of a source say. */
  readonly #read = new WeakMap<Annotations, PushRule>();

  constructor(scope: RuleScope, find: FindObject, graceMs?: number) {
    const { regex, excludeNamespaces, replicateSecrets, replicateConfigMaps } = scope.config.mittwald;
    const kinds = [...(replicateSecrets ? [SECRET] : []), ...(replicateConfigMaps ? [CONFIG_MAP] : [])];
    super(scope, find, { name: 'mittwald', kinds, isRead: isReadAnnotation, graceMs });
    this.#dialect = dialectOf(regex === 'original');
    // As in the original, these match any part of a name.
    const parts = new PatternCache('search');
    this.#excluded = excludeNamespaces.flatMap((item) => {
      const pattern = parts.get(item);
      return 'error' in pattern ? [] : [pattern];
    });
  }

  protected textOf({ annotations, owners }: Observed): string | undefined {
    if (!isRule(annotations)) return undefined;
    const marks = NAMES.from in annotations ? marksText(annotations) : '';
    return `${userText(annotations)} ${marks} ${owners ?? ''}`;
  }

  #push(annotations: Annotations): PushRule {
    return getOrCreate(this.#read, annotations, () => readPush(this.#dialect, annotations, this.#excluded));
  }

  protected async evaluated(found: FoundRule): Promise<Evaluation> {
    const { place, observed, refused } = found;
    const source = referenceIn(place, observed.annotations);
    if (source === undefined) return await this.#pushes(found);
    if (isOwnCopy(place, observed)) return refused(PUSHED_INTO);
    return 'reason' in source ? refused(source) : this.#pulls(found, source);
  }

  #pulls(found: FoundRule, source: Place): Evaluation {
    const { kind, place } = found;
    const { allowAll, configMapsUngated } = this.scope.config.mittwald;
    const isOpen = allowAll || (configMapsUngated && kind === CONFIG_MAP);
    const permits = (given: Annotations): boolean => isOpen || allows(this.#dialect, given, place.namespace);
    return this.pulled(found, source, new KeysShape(place, source, permits));
  }

  async #pushes(found: FoundRule): Promise<Evaluation> {
    const { place, observed } = found;
    const { annotations } = observed;
    const { mittwald, limits } = this.scope.config;
    const { selection, problems } = this.#push(annotations);
    const [problem] = problems;
    const keepsOwners = annotations[NAMES.keepOwners] === 'true' && observed.owners !== undefined;
    const shape = new PushShape({
      source: place,
      text: userText(annotations),
      stripsLabels: annotations[NAMES.stripLabels] === 'true',
      // Without owners of its own, a source says nothing about those of its copies.
      owners: keepsOwners ? ownersIn(observed) : undefined,
      mergesForeign: mittwald.mergeForeign,
    });
    // A mistake must not delete a copy, and neither must a pattern that the original reads in another way.
    const stays = (copy: ResourceKey): Cause | undefined =>
      problem ?? (this.#fellOut(annotations, namespaceOf(copy)) ? FELL_OUT : undefined);
    return await this.pushed(found, { selection, mayPush: limits.mittwaldPush }, shape, stays);
  }

  /** Whether only the original's reading of a pattern matches a namespace. */
  #fellOut(annotations: Annotations, namespace: string): boolean {
    const { half, selection } = this.#push(annotations);
    if (half.length === 0) return false;
    const labels = this.scope.namespaces.factsOf(namespace)?.labels ?? {};
    if (this.#excluded.some((pattern) => pattern.matches(namespace))) return false;
    return half.some(({ original }) => original.matches(namespace)) && !selectsWith(selection, namespace, labels);
  }

  markOn({ annotations }: Observed, target: ResourceKey): Mark | undefined {
    const source = markedSource(annotations);
    if (source === undefined) return undefined;
    const { namespace, name } = parseResourceKey(target);
    if (source.name !== name || source.namespace === namespace) return undefined;
    const rule = this.ruleBeside(target, source);
    return rule && { rule, merges: true };
  }

  override orphanPolicy(rule: RuleKey, observed: Observed): OrphanAction {
    return remainsOf(rule, observed);
  }

  /** What the rule pushes; `undefined`: it pulls, or is no rule. */
  #pushOf(rule: RuleKey): PushRule | undefined {
    const annotations = this.annotationsOf(rule);
    const isPush = annotations !== undefined && referenceIn(this.objectOf(rule).place, annotations) === undefined;
    return isPush ? this.#push(annotations) : undefined;
  }

  protected override problemsOf(rule: RuleKey): readonly Cause[] {
    const misread = this.misreadOf(rule).map((message) => because('MisreadPattern', message));
    return [...(this.#pushOf(rule)?.problems ?? []), ...misread];
  }

  /** Messages about patterns that the original reads in another way, with the namespaces that so fall out. */
  misreadOf(rule: RuleKey): readonly string[] {
    const annotations = this.annotationsOf(rule) ?? {};
    const { namespace: home } = this.objectOf(rule).place;
    const half = this.#pushOf(rule)?.half.slice(0, TRIED) ?? [];
    return half.flatMap(({ item, original }) => {
      const names = [...this.scope.namespaces.names()].filter(
        (name) => name !== home && original.matches(name) && this.#fellOut(annotations, name),
      );
      if (names.length === 0) return [];
      const which = someOf(names.toSorted(), NAMED);
      return `annotation ${NAMES.to}: ${JSON.stringify(item)} matches whole names only; kubernetes-replicator also matches ${which}. Name them, or use --mittwald-regex=original`;
    });
  }

  protected override copies(place: Place, annotations: Annotations, name: string): boolean {
    return name === place.name && isRule(annotations) && referenceIn(place, annotations) === undefined;
  }

  protected selectionOf(_place: Place, annotations: Annotations): NamespaceSelection {
    return this.#push(annotations).selection;
  }
}
