/**
 * What annotated objects mean, for all kinds; a rule of one kind claims only objects of that kind. See `RuleSet`.
 *
 * A rule is `replicator:<Kind>/<namespace>/<name>`, the annotated object. `replicate-to` makes `own` claims on the targets,
 * `replicate-from` makes one `fill` claim on the object itself. A copy with a `replicate-from` is itself a rule.
 *
 * A rule with an invalid annotation claims its existing copies and leaves them unchanged: a mistake in an annotation never deletes
 * or clears a copy.
 */
import type { Steps } from '../../../runtime/queue/slices.ts';
import { type Cause, userCause } from '../../../copy/model/cause.ts';
import { type Claim, type Owner, leavingClaims } from '../../../copy/model/claim.ts';
import {
  parseResourceKey,
  parseRuleKey,
  resourceKey,
  type ResourceKey,
  type RuleKey,
  ruleKeyOfKind,
} from '../../../copy/model/keys.ts';
import { CONFIG_MAP, type Kind, SECRET } from '../../../copy/model/kind.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { EngineView, Evaluation, OutOfReach, RuleSet } from '../../../copy/model/rule-set.ts';
import type { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import { LeftOut } from '../../common/namespaces/left-out.ts';
import type { Reach } from '../../common/namespaces/reach.ts';
import {
  type NamespaceSelection,
  rulesSelecting,
  selectsNow,
  type Served,
  unionOf,
} from '../../common/namespaces/selection.ts';
import { RuleLimits } from '../../common/rules/rule-limits.ts';
import { illFormed, isName, listItems, type Place, type Refusal } from './annotations.ts';
import { type ReplicatorEvent, warning, warningsOf } from './rule-events.ts';
import {
  isRule,
  pushedBy,
  readRule,
  type ReplicationRule,
  type RuleSettings,
  ruleVersion,
  type Targets,
  targetsIn,
  unknownOn,
} from './rule.ts';
import { PullShape } from './pull-shape.ts';
import { PushShape } from './push-shape.ts';

export const REPLICATOR_CONTROLLER = 'replicator';

/** The kinds by their names in `--run-replicators`. */
export const REPLICATED_KINDS = { secret: SECRET, configmap: CONFIG_MAP } as const;

/** Targets in one step of an evaluation: less than a millisecond of work. */
const STEP = 100;

export interface ReplicatorRulesOptions {
  /** Name of the cluster. */
  readonly cluster: string;
  readonly settings: RuleSettings;
  readonly kinds: readonly Kind[];
  readonly namespaces: Namespaces;
  /** The only namespaces that copies can be in; `undefined`: all. */
  readonly served?: Served | undefined;
  /** The object in the cache. */
  readonly observed: (kind: Kind, namespace: string, name: string) => Observed | undefined;
  /** The limits may now admit or refuse the rule: evaluate it again. */
  readonly onLimitChange: (rule: RuleKey) => unknown;
  readonly reach: Reach;
  /** Whether annotations can push copies. */
  readonly push: boolean;
}

export class ReplicatorRules implements RuleSet {
  readonly name = REPLICATOR_CONTROLLER;
  readonly limits: RuleLimits;
  readonly #options: ReplicatorRulesOptions;
  readonly #kinds: ReadonlyMap<string, Kind>;
  /** The namespaces that the rules with copies select, as of their last evaluation. */
  readonly #selections = new Map<RuleKey, NamespaceSelection>();
  /** One shape for each source, because it caches the rule. */
  readonly #shapes = new Map<RuleKey, PushShape>();

  constructor(options: ReplicatorRulesOptions) {
    this.#options = options;
    this.limits = new RuleLimits(options.namespaces, options.onLimitChange);
    this.#kinds = new Map(options.kinds.map((kind) => [kind.kind, kind]));
  }

  /** The rules that a change of a namespace concerns. @see NamespaceChangesOptions */
  rulesFor(namespace: string, changed: ReadonlySet<string> | undefined): Steps<readonly RuleKey[]> {
    const { reach } = this.#options;
    return rulesSelecting(namespace, this.#selections, reach.concernedBy(changed), reach.labelKeys.length > 0);
  }

  /** The rule of an object; `undefined` if the replicator does not run for its kind. */
  ruleOf(object: ResourceKey): RuleKey | undefined {
    const { cluster, kind, namespace, name } = parseResourceKey(object);
    if (!this.#kinds.has(kind) || cluster !== this.#options.cluster) return undefined;
    return ruleKeyOfKind(REPLICATOR_CONTROLLER, kind, namespace, name);
  }

  /** Changes whenever the rule must be evaluated again; `undefined` if the object is not a rule. */
  versionOf({ uid, annotations }: Observed): string | undefined {
    const { settings } = this.#options;
    return isRule(settings, annotations) ? ruleVersion(settings, uid, annotations) : undefined;
  }

  *warmUp(rule: RuleKey): Steps<void> {
    const { names, patterns } = this.#options.settings;
    const { annotations = {} } = this.objectOf(rule).observed ?? {};
    const items = [names.to, names.toNamespaces, names.allowedNamespaces].flatMap((name) =>
      listItems(annotations[name] ?? ''),
    );
    yield* patterns.warmUp(items.map((item) => item.split('/')[0] ?? '').filter((item) => !isName(item)));
  }

  *evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined> {
    const { settings, cluster, reach } = this.#options;
    const { kind, place, observed } = this.objectOf(rule);
    const version = observed && this.versionOf(observed);
    if (observed === undefined || version === undefined) {
      this.#selections.delete(rule);
      this.#shapes.delete(rule);
      return undefined;
    }
    const title = `${kind.kind} ${place.namespace}/${place.name}`;
    const owner: Owner = { key: rule, title, rank: `${observed.created} ${observed.uid}` };
    const nothing = { owner, version, claims: [], sources: [] };
    const refused = (refusal: Cause): Evaluation => {
      return { ...nothing, refusal, claims: leavingClaims(owner, view.ownedBy(rule), refusal) };
    };
    const replication = readRule(settings, place, observed.annotations);
    if (replication?.kind !== 'push') this.#selections.delete(rule);
    if (replication === undefined) return nothing;
    if (replication.kind === 'broken') return refused(replication.refusal);
    const forbidden = this.#forbidden(replication, place);
    // Whether it may copy can depend on the labels of its namespace, and of that of its source.
    if (reach.labelKeys.length > 0 && (replication.kind === 'pull' || forbidden !== undefined)) {
      const names = new Set([place.namespace, ...(replication.kind === 'pull' ? [sourceNamespace(replication)] : [])]);
      this.#selections.set(rule, { names, patterns: [] });
    }
    if (forbidden !== undefined) return { ...nothing, outOfReach: { ...forbidden, part: 'all' } };
    const self = resourceKey(cluster, kind.kind, place.namespace, place.name);
    if (replication.kind === 'pull') {
      const [namespace = '', name = ''] = replication.from.split('/');
      const source = resourceKey(cluster, kind.kind, namespace, name);
      const shape = new PullShape(settings, { ...place, kind: kind.kind }, { namespace, name });
      return { ...nothing, claims: [{ owner, target: self, mode: 'fill', source, shape }], sources: [source] };
    }
    const { found, outOfReach, demand } = yield* this.#targets(rule, place, owner, replication.targets);
    if ('reason' in found) return { ...refused(found), outOfReach, demand };
    const shape = this.#shapeOf(rule, place);
    const claims: Claim[] = [];
    for (const path of found) {
      const [namespace = '', name = ''] = path.split('/');
      const target = resourceKey(cluster, kind.kind, namespace, name);
      claims.push({ owner, mode: 'own', source: self, shape, target });
      if (claims.length % STEP === 0) yield;
    }
    return { ...nothing, claims, outOfReach, demand };
  }

  /** Why the rule must not copy at all. */
  #forbidden(replication: Exclude<ReplicationRule, { kind: 'broken' }>, { namespace: home }: Place): Cause | undefined {
    const { reach, namespaces, push } = this.#options;
    if (replication.kind === 'push') {
      if (!push) return userCause('NotPermitted', 'annotations must not push copies: --replicator-push is false');
      return reach.fromRefusal(home, namespaces.factsOf(home));
    }
    const from = sourceNamespace(replication);
    // The object asks for its content itself, so its namespace need not consent.
    return reach.fromRefusal(from, namespaces.factsOf(from)) ?? reach.toRefusal(home, home, namespaces.factsOf(home));
  }

  /** The targets, or a refusal if they exceed a limit. */
  *#targets(
    rule: RuleKey,
    place: Place,
    { rank }: Owner,
    targets: Targets,
  ): Steps<Pick<Evaluation, 'outOfReach' | 'demand'> & { readonly found: ReadonlySet<string> | Refusal }> {
    const { limits } = this;
    const { namespaces: there, reach } = this.#options;
    // Set before the search: a namespace that is added during the search then starts another evaluation.
    const selection = unionOf(targets.groups.map(({ namespaces }) => namespaces));
    this.#selections.set(rule, selection);
    const leftOut = new LeftOut(place.namespace);
    const found = yield* targetsIn(targets, place, there, reach, leftOut);
    const { outOfReach } = leftOut;
    if ('reason' in found) return { found, outOfReach };
    const demand = limits.demand(rule, place.namespace, rank, Math.max(found.size, targets.named));
    if (demand.isAdmitted) return { found, outOfReach, demand };
    // New namespaces change the number of targets only through patterns: names already count.
    this.#selections.set(rule, { ...selection, names: new Set() });
    const problem = `the annotated objects in namespace ${place.namespace} have more than ${limits.limit} targets in total; older objects take precedence`;
    return { found: illFormed(...targets.annotation, problem), outOfReach, demand };
  }

  ownerOf({ annotations }: Observed, target: ResourceKey): RuleKey | undefined {
    const { names } = this.#options.settings;
    if (!(names.by in annotations)) return undefined;
    const place = parseResourceKey(target);
    const mark = this.ruleOf(target) === undefined ? undefined : pushedBy(names, place, annotations);
    return mark && ruleKeyOfKind(REPLICATOR_CONTROLLER, place.kind, mark.namespace, mark.name);
  }

  orphanPolicy(_rule: RuleKey, observed: Observed): 'delete' | 'keep' {
    const { settings } = this.#options;
    return unknownOn(settings, 'the target', observed.annotations) === undefined ? 'delete' : 'keep';
  }

  /** The events that the annotations of a rule deserve, whatever becomes of its targets. */
  warningsOf(rule: RuleKey, outOfReach: OutOfReach | undefined): readonly ReplicatorEvent[] {
    const { served, namespaces } = this.#options;
    const targets = this.#targetsOf(rule);
    const warnings = targets === undefined ? [] : warningsOf(targets, namespaces, served);
    return outOfReach === undefined ? warnings : [warning(outOfReach), ...warnings];
  }

  /** What the object of a rule pushes to. */
  #targetsOf(rule: RuleKey): Targets | undefined {
    const { place, observed } = this.objectOf(rule);
    const replication = observed && readRule(this.#options.settings, place, observed.annotations);
    return replication?.kind === 'push' ? replication.targets : undefined;
  }

  selects(rule: RuleKey, object: ResourceKey): boolean | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    const groups = this.#targetsOf(rule)?.groups.filter(({ names }) => names.includes(name)) ?? [];
    if (groups.length === 0 || parseRuleKey(rule).kind !== kind || this.ruleOf(object) === rule) return undefined;
    return groups.some((group) => selectsNow(group.namespaces, namespace, this.#options.namespaces));
  }

  #shapeOf(rule: RuleKey, place: Place): PushShape {
    let shape = this.#shapes.get(rule);
    if (shape === undefined) this.#shapes.set(rule, (shape = new PushShape(this.#options.settings, place)));
    return shape;
  }

  /** The annotated object of a rule, as the cache has it. @throws TypeError for the key of another rule */
  objectOf(rule: RuleKey): { readonly kind: Kind; readonly place: Place; readonly observed: Observed | undefined } {
    const { kind: kindName, namespace, name } = parseRuleKey(rule);
    const kind = this.#kinds.get(kindName);
    if (kind === undefined) throw new TypeError(`not a rule key of the replicator: ${rule}`);
    return { kind, place: { namespace, name }, observed: this.#options.observed(kind, namespace, name) };
  }
}

/** The namespace of the source of a pull. */
function sourceNamespace({ from }: { readonly from: string }): string {
  return from.split('/')[0] ?? '';
}
