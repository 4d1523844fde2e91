/**
 * Turns annotated objects into claims (see `RuleSet`). A rule is an annotated object, with the key
 * `replicator:<Kind>/<namespace>/<name>`. It claims only objects of its own kind.
 *
 * `replicate-to` makes `own` claims on the targets. `replicate-from` makes one `fill` claim on the object itself. A
 * copy with a `replicate-from` is a rule, too. A rule with an invalid annotation claims its existing copies and leaves
 * them unchanged: a mistake never deletes or empties a copy.
 */
import { getOrCreate } from '../../../runtime/maps.ts';
import { pause } from '../../../runtime/pause.ts';
import { type Cause, userCause } from '../../../copy/model/cause.ts';
import { type Claimed, type Owner, leavingClaims, rankOf } from '../../../copy/model/claim.ts';
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
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import type { RuleScope } from '../../common/context.ts';
import { LeftOut } from '../../common/namespaces/left-out.ts';
import type { Changes } from '../../common/namespaces/reach.ts';
import { misreadPatterns, type NamespaceSelection, selectsNow, unionOf } from '../../common/namespaces/selection.ts';
import { patternSize, RuleLimits } from '../../common/rules/rule-limits.ts';
import type { RuleEvent } from '../../../copy/engine/controller.ts';
import { annotationNames, isName, listItems, type Place, type Refusal } from './annotations.ts';
import { warning, warningsOf } from './rule-events.ts';
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

/** The kinds that the replicator can copy, by their names in `--run-replicators`. */
export const REPLICATED_KINDS = { secret: SECRET, configmap: CONFIG_MAP } as const;

export interface ReplicatorRulesOptions {
  /** Labels of new objects. A command does not need them, because existing copies keep their labels. */
  readonly createWithLabels?: RuleSettings['createWithLabels'];
  /** @see RuleSet.graceMs */
  readonly graceMs?: number;
  /** The object in the cache; `undefined`: it does not exist. */
  readonly observed: (kind: Kind, namespace: string, name: string) => Observed | undefined;
}

export class ReplicatorRules implements RuleSet {
  readonly name = REPLICATOR_CONTROLLER;
  readonly graceMs: number;
  readonly #limits: RuleLimits;
  readonly settings: RuleSettings;
  readonly kinds: readonly Kind[];
  readonly #scope: RuleScope;
  readonly #observed: ReplicatorRulesOptions['observed'];
  /** The namespaces whose changes concern each rule, from its last evaluation. */
  readonly #selections = new Map<RuleKey, NamespaceSelection>();
  /** One shape for each source, so that all its copies share the parsed rule. */
  readonly #shapes = new Map<RuleKey, PushShape>();

  constructor(scope: RuleScope, { createWithLabels = {}, graceMs = 0, observed }: ReplicatorRulesOptions) {
    this.graceMs = graceMs;
    this.#scope = scope;
    this.#observed = observed;
    const { annotationsPrefix, allowAll, ignoreUnknown, runReplicators } = scope.config.replicator;
    this.kinds = runReplicators.map((kind) => REPLICATED_KINDS[kind]);
    const patterns = new PatternCache('full');
    this.settings = { names: annotationNames(annotationsPrefix), allowAll, ignoreUnknown, createWithLabels, patterns };
    this.#limits = new RuleLimits('the annotated objects', scope.namespaces, scope.onRoom);
  }

  /** The rules that changes of namespaces concern. @see RulesInNamespaces */
  rulesFor(changes: Changes): Promise<readonly RuleKey[]> {
    return this.#scope.reach.concernedBy(changes, this.#selections);
  }

  /** The rule of an object; `undefined`: the replicator does not run for its kind or cluster. */
  ruleOf(object: ResourceKey): RuleKey | undefined {
    const { cluster, kind, namespace, name } = parseResourceKey(object);
    if (this.#kindOf(kind) === undefined || cluster !== this.#scope.cluster) return undefined;
    return ruleKeyOfKind(REPLICATOR_CONTROLLER, kind, namespace, name);
  }

  /** A text that changes when the rule must be evaluated again; `undefined`: the object is no rule. */
  versionOf({ uid, annotations }: Observed): string | undefined {
    const { settings } = this;
    return isRule(settings, annotations) ? ruleVersion(settings, uid, annotations) : undefined;
  }

  async evaluate(rule: RuleKey, view: EngineView): Promise<Evaluation | undefined> {
    const { settings } = this;
    const { cluster, reach } = this.#scope;
    await settings.patterns.prepare(() => this.#patternsIn(rule));
    const { kind, place, observed } = this.objectOf(rule);
    const version = observed && this.versionOf(observed);
    if (observed === undefined || version === undefined) {
      this.#selections.delete(rule);
      this.#shapes.delete(rule);
      this.#limits.leave(rule);
      return undefined;
    }
    const title = `${kind.kind} ${place.namespace}/${place.name}`;
    const owner: Owner = { key: rule, title, rank: rankOf(observed.created, observed.uid) };
    const nothing = { owner, version, claims: [], sources: [] };
    const refused = (refusal: Cause): Evaluation => {
      return { ...nothing, refusal, claims: leavingClaims(owner, view.ownedBy(rule), refusal) };
    };
    const replication = readRule(settings, place, observed.annotations);
    if (replication?.kind !== 'push') this.#selections.delete(rule);
    // A broken rule counts as before, because its copies stay.
    if (replication === undefined || replication.kind === 'pull') this.#limits.leave(rule);
    if (replication === undefined) return nothing;
    if (replication.kind === 'broken') return refused(replication.refusal);
    const forbidden = this.#forbidden(replication, place);
    // Whether the rule may copy can depend on labels of its own and its source's namespace. So both concern the rule.
    if (reach.labelKeys.length > 0 && (replication.kind === 'pull' || forbidden !== undefined)) {
      const names = new Set([place.namespace, ...(replication.kind === 'pull' ? [sourceNamespace(replication)] : [])]);
      this.#selections.set(rule, { names, patterns: [] });
    }
    if (forbidden !== undefined) {
      this.#limits.leave(rule);
      return { ...nothing, outOfReach: { ...forbidden, part: 'all' } };
    }
    const self = resourceKey(cluster, kind.kind, place.namespace, place.name);
    if (replication.kind === 'pull') {
      const [namespace = '', name = ''] = replication.from.split('/');
      const source = resourceKey(cluster, kind.kind, namespace, name);
      const shape = new PullShape(settings, { ...place, kind: kind.kind }, { namespace, name });
      const claim = { owner, mode: 'fill', source, shape } as const;
      return { ...nothing, claims: [{ target: self, claim }], sources: [source] };
    }
    const { found, outOfReach } = await this.#targets(rule, place, replication.targets);
    if ('reason' in found) return { ...refused(found), outOfReach };
    const claim = { owner, mode: 'own', source: self, shape: this.#shapeOf(rule, place) } as const;
    const claims: Claimed[] = [];
    for (const path of found) {
      const [namespace = '', name = ''] = path.split('/');
      claims.push({ target: resourceKey(cluster, kind.kind, namespace, name), claim });
      await pause();
    }
    return { ...nothing, claims, outOfReach };
  }

  #patternsIn(rule: RuleKey): string[] {
    const { to, toNamespaces, allowedNamespaces } = this.settings.names;
    const { annotations = {} } = this.objectOf(rule).observed ?? {};
    const items = [to, toNamespaces, allowedNamespaces].flatMap((name) => listItems(annotations[name] ?? ''));
    return items.map((item) => item.split('/')[0] ?? '').filter((item) => !isName(item));
  }

  /** The names of the targets, in any namespace, as in the annotations. */
  #namesIn(rule: RuleKey): string[] {
    const { place, observed } = this.objectOf(rule);
    const to = observed?.annotations[this.settings.names.to];
    return to === undefined ? [place.name] : listItems(to).map((item) => item.split('/').at(-1) ?? '');
  }

  /** Why the rule must not copy at all; `undefined`: it may copy. */
  #forbidden(replication: Exclude<ReplicationRule, { kind: 'broken' }>, { namespace: home }: Place): Cause | undefined {
    const { reach, namespaces, config } = this.#scope;
    if (replication.kind === 'push') {
      if (!config.limits.replicatorPush)
        return userCause('NotPermitted', 'annotations must not push copies: --replicator-push is false');
      return reach.fromRefusal(home, namespaces.factsOf(home));
    }
    const from = sourceNamespace(replication);
    // The target itself requests the data, so its namespace need not consent.
    return reach.fromRefusal(from, namespaces.factsOf(from)) ?? reach.toRefusal(home, home, namespaces.factsOf(home));
  }

  /** The targets of a rule that pushes, or its refusal if there are too many. */
  async #targets(
    rule: RuleKey,
    place: Place,
    targets: Targets,
  ): Promise<Pick<Evaluation, 'outOfReach'> & { readonly found: ReadonlySet<string> | Refusal }> {
    const { namespaces: there, reach } = this.#scope;
    // Stored before the search, so that a namespace that is added during the search causes another evaluation.
    const selection = unionOf(targets.groups.map(({ namespaces }) => namespaces));
    this.#selections.set(rule, selection);
    const leftOut = new LeftOut(place.namespace);
    const found = await targetsIn(targets, place, there, reach, leftOut);
    const outOfReach = leftOut.outOfReach(() => this.misreadOf(rule));
    if ('reason' in found) return { found, outOfReach };
    const size = { targets: Math.max(found.size, targets.named), patterns: patternSize(selection) };
    const refusal = this.#limits.take(rule, size);
    if (refusal === undefined) return { found, outOfReach };
    // Only namespaces that match a pattern change the number of targets: those in named namespaces always count.
    this.#selections.set(rule, { ...selection, names: new Set() });
    return { found: refusal, outOfReach };
  }

  ownerOf({ annotations }: Observed, target: ResourceKey): RuleKey | undefined {
    const { names } = this.settings;
    if (!(names.by in annotations)) return undefined;
    const place = parseResourceKey(target);
    const mark = this.ruleOf(target) === undefined ? undefined : pushedBy(names, place, annotations);
    return mark && ruleKeyOfKind(REPLICATOR_CONTROLLER, place.kind, mark.namespace, mark.name);
  }

  orphanPolicy(_rule: RuleKey, observed: Observed): 'delete' | 'keep' {
    return unknownOn(this.settings, 'the target', observed.annotations) === undefined ? 'delete' : 'keep';
  }

  /** The events about the annotations themselves, for example a namespace that does not exist; none about outcomes. */
  warningsOf(rule: RuleKey, outOfReach: OutOfReach | undefined): readonly RuleEvent[] {
    const { served, namespaces } = this.#scope;
    const targets = this.#targetsOf(rule);
    const warnings = targets === undefined ? [] : warningsOf(targets, namespaces, served);
    // Of patterns that look like globs, the warnings say more.
    return outOfReach === undefined || outOfReach.part === 'none' ? warnings : [warning(outOfReach), ...warnings];
  }

  /** The targets of a rule that pushes; `undefined`: the rule does not push. */
  #targetsOf(rule: RuleKey): Targets | undefined {
    const { place, observed } = this.objectOf(rule);
    const replication = observed && readRule(this.settings, place, observed.annotations);
    return replication?.kind === 'push' ? replication.targets : undefined;
  }

  /** Messages about patterns that the user probably meant as a glob. See `misreadPatterns`. */
  misreadOf(rule: RuleKey): readonly string[] {
    return misreadPatterns(this.#targetsOf(rule)?.suspects ?? [], this.#scope.namespaces.names());
  }

  isThere(rule: RuleKey): boolean {
    return this.objectOf(rule).observed !== undefined;
  }

  selects(rule: RuleKey, object: ResourceKey, isQuick = false): boolean | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    if (isQuick && !this.settings.patterns.isPrepared(this.#patternsIn(rule)))
      return parseRuleKey(rule).kind === kind && this.#namesIn(rule).includes(name) ? true : undefined;
    const groups = this.#targetsOf(rule)?.groups.filter(({ names }) => names.includes(name)) ?? [];
    if (groups.length === 0 || parseRuleKey(rule).kind !== kind || this.ruleOf(object) === rule) return undefined;
    return groups.some((group) => selectsNow(group.namespaces, namespace, this.#scope.namespaces));
  }

  #shapeOf(rule: RuleKey, place: Place): PushShape {
    return getOrCreate(this.#shapes, rule, () => new PushShape(this.settings, place));
  }

  /** The annotated object of a rule, from the cache. @throws TypeError: not a rule key of the replicator */
  objectOf(rule: RuleKey): { readonly kind: Kind; readonly place: Place; readonly observed: Observed | undefined } {
    const { kind: kindName, namespace, name } = parseRuleKey(rule);
    const kind = this.#kindOf(kindName);
    if (kind === undefined) throw new TypeError(`not a rule key of the replicator: ${rule}`);
    return { kind, place: { namespace, name }, observed: this.#observed(kind, namespace, name) };
  }

  #kindOf(name: string): Kind | undefined {
    return this.kinds.find(({ kind }) => kind === name);
  }
}

/** The namespace of the source of a rule that pulls. */
function sourceNamespace({ from }: { readonly from: string }): string {
  return from.split('/')[0] ?? '';
}
