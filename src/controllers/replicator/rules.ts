/**
 * Turns objects with annotations of k8s-replicator into claims (see `AnnotatedRules`).
 *
 * `replicate-to` makes `own` claims on the targets. `replicate-from` makes one `fill` claim on the object itself. A
 * copy with a `replicate-from` is a rule, too. A rule with an invalid annotation claims its existing copies and leaves
 * them unchanged: a mistake never deletes or empties a copy.
 */
import type { RuleEvent } from '../../copy/engine/controller.ts';
import { parseResourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation, Mark } from '../../copy/model/rule-set.ts';
import { PatternCache } from '../../runtime/text/name-patterns.ts';
import { AnnotatedRules, type FindObject, type FoundRule } from '../common/annotated/rules.ts';
import type { Place } from '../common/annotated/values.ts';
import type { RuleScope } from '../common/context.ts';
import { type NamespaceSelection, unionOf } from '../common/namespaces/selection.ts';
import { FilledShape, PushShape } from './shape.ts';
import { readRule, type Targets, targetsIn } from './targets.ts';
import {
  annotationNames,
  type Annotations,
  isReplicatorAnnotation,
  isRule,
  listItems,
  namespaceWarnings,
  pushedBy,
  type RuleSettings,
  ruleText,
  unknownOn,
} from './words.ts';

/** The kinds that the replicator can copy, by their names in `--run-replicators`. */
export const REPLICATED_KINDS = { secret: SECRET, configmap: CONFIG_MAP } as const;

interface ReplicatorRulesOptions {
  /** Labels of new objects. A command does not need them, because existing copies keep their labels. */
  readonly createWithLabels?: RuleSettings['createWithLabels'];
  /** @see RuleSet.graceMs */
  readonly graceMs?: number;
}

export class ReplicatorRules extends AnnotatedRules {
  readonly settings: RuleSettings;

  constructor(scope: RuleScope, find: FindObject, { createWithLabels = {}, graceMs }: ReplicatorRulesOptions = {}) {
    const { annotationsPrefix, allowAll, ignoreUnknown, runReplicators } = scope.config.replicator;
    const names = annotationNames(annotationsPrefix);
    super(scope, find, {
      name: 'replicator',
      kinds: runReplicators.map((kind) => REPLICATED_KINDS[kind]),
      isRead: (annotation) => isReplicatorAnnotation(names, annotation),
      graceMs,
    });
    this.settings = { names, allowAll, ignoreUnknown, createWithLabels, patterns: new PatternCache('full') };
  }

  protected textOf({ annotations }: Observed): string | undefined {
    return isRule(this.settings, annotations) ? ruleText(this.settings, annotations) : undefined;
  }

  protected async evaluated(found: FoundRule): Promise<Evaluation> {
    const { settings, scope } = this;
    const { rule, kind, place, observed, nothing, refused } = found;
    const replication = readRule(settings, place, observed.annotations);
    if (replication === undefined) {
      this.targets.leave(rule);
      return nothing;
    }
    if (replication.kind === 'broken') return refused(replication.refusal);
    if (replication.kind === 'pull') {
      const [namespace = '', name = ''] = replication.from.split('/');
      const source = { namespace, name };
      return this.pulled(found, source, new FilledShape(settings, { ...place, kind: kind.kind }, source));
    }
    const { targets, from } = replication;
    const wanted = {
      selection: unionOf(targets.groups.map(({ namespaces }) => namespaces)),
      mayPush: scope.config.limits.replicatorPush,
      find: targetsIn.bind(undefined, targets, place, scope.namespaces, scope.reach),
      least: targets.named,
    };
    return await this.pushed(found, wanted, new PushShape(settings, place, observed.annotations, from));
  }

  markOn({ annotations }: Observed, target: ResourceKey): Mark | undefined {
    const { names } = this.settings;
    if (!(names.by in annotations)) return undefined;
    const source = pushedBy(names, parseResourceKey(target), annotations);
    const rule = source && this.ruleBeside(target, source);
    return rule && { rule, doubt: this.#doubtOf(annotations) };
  }

  override orphanPolicy(_rule: RuleKey, observed: Observed): 'delete' | 'keep' {
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

  override warningsOf(rule: RuleKey): readonly RuleEvent[] {
    const { served, namespaces } = this.scope;
    const { names } = unionOf((this.#targetsOf(rule)?.groups ?? []).map((group) => group.namespaces));
    return [...namespaceWarnings([...names], namespaces, served), ...super.warningsOf(rule)];
  }

  /** The targets of a rule that pushes; `undefined`: the rule does not push. */
  #targetsOf(rule: RuleKey): Targets | undefined {
    const { place, observed } = this.objectOf(rule);
    const replication = observed && readRule(this.settings, place, observed.annotations);
    return replication?.kind === 'push' ? replication.targets : undefined;
  }

  protected override copies(place: Place, annotations: Annotations, name: string): boolean {
    const { to, toNamespaces } = this.settings.names;
    const list = annotations[to];
    if (list === undefined) return toNamespaces in annotations && name === place.name;
    return listItems(list).some((item) => item.split('/').at(-1) === name);
  }

  protected selectionOf(place: Place, annotations: Annotations, name: string): NamespaceSelection | undefined {
    const replication = readRule(this.settings, place, annotations);
    if (replication?.kind !== 'push') return undefined;
    const groups = replication.targets.groups.filter(({ names }) => names.includes(name));
    return unionOf(groups.map(({ namespaces }) => namespaces));
  }
}
