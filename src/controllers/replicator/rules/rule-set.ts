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
import type { Claimed } from '../../../copy/model/claim.ts';
import {
  parseResourceKey,
  parseRuleKey,
  resourceKey,
  type ResourceKey,
  type RuleKey,
} from '../../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../../copy/model/kind.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { EngineView, Evaluation, Mark } from '../../../copy/model/rule-set.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import type { AnnotatedRules } from '../../common/annotated/controller.ts';
import { findRule } from '../../common/annotated/found-rule.ts';
import { AnnotatedObjects, type FindObject, type Place } from '../../common/annotated/objects.ts';
import type { RuleScope } from '../../common/context.ts';
import { misreadPatterns, selectsNow, unionOf } from '../../common/namespaces/selection.ts';
import { type Found, RuleTargets } from '../../common/rules/rule-targets.ts';
import type { RuleEvent } from '../../../copy/engine/controller.ts';
import { annotationNames, isAnnotated, listItems } from './annotations.ts';
import { warningsOf } from '../words.ts';
import {
  isRule,
  pushedBy,
  readRule,
  type RuleSettings,
  ruleVersion,
  type Targets,
  targetsIn,
  unknownOn,
} from './rule.ts';
import { FilledShape } from '../shape/pull.ts';
import { PushShape } from '../shape/push.ts';

export const REPLICATOR_CONTROLLER = 'replicator';

/** The kinds that the replicator can copy, by their names in `--run-replicators`. */
export const REPLICATED_KINDS = { secret: SECRET, configmap: CONFIG_MAP } as const;

export interface ReplicatorRulesOptions {
  /** Labels of new objects. A command does not need them, because existing copies keep their labels. */
  readonly createWithLabels?: RuleSettings['createWithLabels'];
  /** @see RuleSet.graceMs */
  readonly graceMs?: number;
  readonly observed: FindObject;
}

export class ReplicatorRules implements AnnotatedRules {
  readonly name = REPLICATOR_CONTROLLER;
  readonly settings: RuleSettings;
  readonly objects: AnnotatedObjects;
  readonly targets: RuleTargets;
  readonly #graceMs: number;
  readonly #scope: RuleScope;
  /** One shape for each source, so that all its copies share the parsed rule. */
  readonly #shapes = new Map<RuleKey, PushShape>();

  constructor(scope: RuleScope, { createWithLabels = {}, graceMs = 0, observed: find }: ReplicatorRulesOptions) {
    this.#graceMs = graceMs;
    this.#scope = scope;
    const { annotationsPrefix, allowAll, ignoreUnknown, runReplicators } = scope.config.replicator;
    const kinds = runReplicators.map((kind) => REPLICATED_KINDS[kind]);
    this.objects = new AnnotatedObjects({ controller: this.name, cluster: scope.cluster, kinds, find });
    const patterns = new PatternCache('full');
    this.settings = { names: annotationNames(annotationsPrefix), allowAll, ignoreUnknown, createWithLabels, patterns };
    this.targets = new RuleTargets(scope, this.name);
  }

  isKept(annotations: Observed['annotations'] | undefined): boolean {
    return isAnnotated(this.settings.names, annotations);
  }

  versionOf({ uid, annotations }: Observed): string | undefined {
    const { settings } = this;
    return isRule(settings, annotations) ? ruleVersion(settings, uid, annotations) : undefined;
  }

  async evaluate(rule: RuleKey, view: EngineView): Promise<Evaluation | undefined> {
    const { settings } = this;
    const found = findRule(this, rule, view);
    if (found === undefined) {
      this.#shapes.delete(rule);
      return undefined;
    }
    const { kind, place, observed, owner, nothing, refused } = found;
    const replication = readRule(settings, place, observed.annotations);
    // A broken rule counts as before, because its copies stay.
    if (replication?.kind === 'broken') return refused(replication.refusal);
    if (replication?.kind !== 'push') this.targets.leave(rule);
    if (replication === undefined) return nothing;
    const self = this.objects.keyOf(rule, place);
    if (replication.kind === 'pull') {
      const [namespace = '', name = ''] = replication.from.split('/');
      const outOfReach = this.targets.pullFrom(rule, namespace);
      if (outOfReach !== undefined) return { ...nothing, outOfReach };
      const source = this.objects.keyOf(rule, { namespace, name });
      const shape = new FilledShape(settings, { ...place, kind: kind.kind }, { namespace, name });
      const claim = { owner, mode: 'fill', source, shape } as const;
      return { ...nothing, claims: [{ target: self, claim }], sources: [source] };
    }
    const { targets, refusal, outOfReach } = await this.#find(rule, place, replication.targets);
    if (refusal !== undefined) return refused(refusal, outOfReach);
    const claim = { owner, mode: 'own', source: self, shape: this.#shapeOf(rule, place) } as const;
    const claims: Claimed[] = [];
    for (const path of targets) {
      const [namespace = '', name = ''] = path.split('/');
      claims.push({ target: this.objects.keyOf(rule, { namespace, name }), claim });
      await pause();
    }
    return { ...nothing, claims, outOfReach };
  }

  /** The names of the targets, in any namespace, as in the annotations. */
  #namesIn(rule: RuleKey): string[] {
    const { place, observed } = this.objects.of(rule);
    const to = observed?.annotations[this.settings.names.to];
    return to === undefined ? [place.name] : listItems(to).map((item) => item.split('/').at(-1) ?? '');
  }

  /** The targets of a rule that pushes. */
  async #find(rule: RuleKey, place: Place, targets: Targets): Promise<Found> {
    const { namespaces: there, reach, config } = this.#scope;
    return await this.targets.find(rule, {
      selection: unionOf(targets.groups.map(({ namespaces }) => namespaces)),
      mayPush: config.limits.replicatorPush,
      find: async (leftOut) => await targetsIn(targets, place, there, reach, leftOut),
      least: targets.named,
      misread: () => this.misreadOf(rule),
    });
  }

  markOn({ annotations }: Observed, target: ResourceKey): Mark | undefined {
    const { names } = this.settings;
    if (!(names.by in annotations)) return undefined;
    const { cluster, kind, ...place } = parseResourceKey(target);
    const mark = pushedBy(names, place, annotations);
    const rule = mark && this.objects.ruleOf(resourceKey(cluster, kind, mark.namespace, mark.name));
    return rule && { rule, doubt: this.#doubtOf(annotations) };
  }

  orphanPolicy(_rule: RuleKey, observed: Observed): 'delete' | 'keep' {
    return unknownOn(this.settings, 'the target', observed.annotations) === undefined ? 'delete' : 'keep';
  }

  /** Why an object may be no copy that the original made; `null`: it looks wholly like one. */
  #doubtOf(annotations: Observed['annotations']): string | null {
    const { names } = this.settings;
    const unknown = unknownOn(this.settings, 'it', annotations);
    if (unknown !== undefined) return unknown.message;
    const requests = [names.to, names.toNamespaces].find((name) => name in annotations);
    if (requests !== undefined) return `it has the annotation ${requests}`;
    // The original writes `replicated-at` on every copy, and the version on every copy with data.
    return names.at in annotations || names.version in annotations ? null : `it has no annotation ${names.at}`;
  }

  /** The events about the annotations themselves, for example a namespace that does not exist; none about outcomes. */
  warningsOf(rule: RuleKey): readonly RuleEvent[] {
    const { served, namespaces } = this.#scope;
    const targets = this.#targetsOf(rule);
    return targets === undefined ? [] : warningsOf(targets, namespaces, served);
  }

  /** The targets of a rule that pushes; `undefined`: the rule does not push. */
  #targetsOf(rule: RuleKey): Targets | undefined {
    const { place, observed } = this.objects.of(rule);
    const replication = observed && readRule(this.settings, place, observed.annotations);
    return replication?.kind === 'push' ? replication.targets : undefined;
  }

  /** Messages about patterns that the user probably meant as a glob. See `misreadPatterns`. */
  misreadOf(rule: RuleKey): readonly string[] {
    return misreadPatterns(this.#targetsOf(rule)?.suspects ?? [], this.#scope.namespaces.names());
  }

  /** What a source that exists has let go needs no grace. */
  graceMs(rule: RuleKey, isLetGo: boolean): number {
    return isLetGo && this.objects.of(rule).observed !== undefined ? 0 : this.#graceMs;
  }

  selects(rule: RuleKey, object: ResourceKey, isQuick = false): boolean | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    if (isQuick) return parseRuleKey(rule).kind === kind && this.#namesIn(rule).includes(name) ? true : undefined;
    const groups = this.#targetsOf(rule)?.groups.filter(({ names }) => names.includes(name)) ?? [];
    if (groups.length === 0 || parseRuleKey(rule).kind !== kind || this.objects.ruleOf(object) === rule)
      return undefined;
    return groups.some((group) => selectsNow(group.namespaces, namespace, this.#scope.namespaces));
  }

  #shapeOf(rule: RuleKey, place: Place): PushShape {
    return getOrCreate(this.#shapes, rule, () => new PushShape(this.settings, place));
  }
}
