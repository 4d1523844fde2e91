/**
 * Turns objects with annotations of config-syncer into claims (see `RuleSet`). A rule is such an object, with the key
 * `config-syncer:<Kind>/<namespace>/<name>`. It claims a copy of its name in each namespace that its selector selects,
 * except its own.
 */
import type { Entry } from '../../copy/book/claim-book.ts';
import type { RuleEvent } from '../../copy/engine/controller.ts';
import { warning } from '../../copy/engine/life/warnings.ts';
import { because, type Cause } from '../../copy/model/cause.ts';
import { type Claim, claimAll, type Claimed, leavingClaims } from '../../copy/model/claim.ts';
import { parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { EngineView, Evaluation, Mark } from '../../copy/model/rule-set.ts';
import type { AnnotatedRules } from '../common/annotated/controller.ts';
import { findRule } from '../common/annotated/found-rule.ts';
import { AnnotatedObjects, type FindObject, type Place } from '../common/annotated/objects.ts';
import { SUSPEND_ANNOTATION, SUSPENDED } from '../common/annotated/report.ts';
import type { RuleScope } from '../common/context.ts';
import { type NamespaceSelection, selectsNow } from '../common/namespaces/selection.ts';
import { RuleTargets } from '../common/rules/rule-targets.ts';
import { type Clusters, clustersText, type Far, farOf, UNIDENTIFIED } from './other-clusters.ts';
import { SyncShape, type SyncShapeOptions } from './shape.ts';
import {
  contextsIn,
  farSourceIn,
  isAnnotated,
  isRule,
  originConflict,
  otherClusterIn,
  selectionIn,
  sourceIn,
  userText,
} from './words.ts';

/** What a source without a selector selects in this cluster. */
const NOWHERE: NamespaceSelection = { names: new Set(), patterns: [] };

export class ConfigSyncerRules implements AnnotatedRules {
  readonly name = 'config-syncer';
  readonly objects: AnnotatedObjects;
  readonly targets: RuleTargets;
  readonly isKept = isAnnotated;
  readonly #scope: RuleScope;
  readonly #find: FindObject;
  readonly #clusters: Clusters | undefined;
  readonly #clusterName: string;

  /** @param clusters `undefined`: annotations for other clusters are not evaluated, as in commands */
  constructor(scope: RuleScope, find: FindObject, clusters?: Clusters) {
    const { cluster, config } = scope;
    this.#scope = scope;
    this.#find = find;
    this.#clusters = clusters;
    this.#clusterName = config.configSyncer.clusterName;
    this.objects = new AnnotatedObjects({
      controller: this.name,
      cluster,
      kinds: [SECRET, CONFIG_MAP],
      find,
    });
    this.targets = new RuleTargets(scope, this.name);
  }

  versionOf({ uid, annotations }: Observed): string | undefined {
    if (!isRule(annotations)) return undefined;
    return `${uid} ${userText(annotations)} ${clustersText(contextsIn(annotations), this.#clusters, this.#scope.cluster)}`;
  }

  async evaluate(rule: RuleKey, view: EngineView): Promise<Evaluation | undefined> {
    const found = findRule(this, rule, view);
    if (found === undefined) return undefined;
    const { place, observed, owner, nothing, refused } = found;
    const { uid, annotations } = observed;
    const refusal = this.#refusalOf(place.namespace, annotations);
    if (refusal !== undefined) {
      this.targets.leave(rule);
      return refused(refusal);
    }
    const selected = selectionIn(annotations) ?? NOWHERE;
    const [selection, mistake] = 'reason' in selected ? [NOWHERE, selected] : [selected];
    const { targets, refusal: tooMany, outOfReach } = await this.targets.find(rule, { selection });
    if (outOfReach?.part === 'all') return { ...nothing, outOfReach };
    const options = {
      source: place,
      uid,
      clusterName: this.#clusterName,
      text: userText(annotations),
    };
    const claim = { owner, mode: 'own', source: this.objects.keyOf(rule, place) } as const;
    const far = this.#farClaims(rule, claim, options, view);
    if (mistake !== undefined) {
      const left = leavingClaims(owner, this.#near(view.ownedBy(rule)), mistake);
      // The event about the selector is that of a refusal, but it does not concern the other clusters.
      return far.length === 0 ? refused(mistake) : { ...nothing, claims: [...left, ...far] };
    }
    if (tooMany !== undefined) return refused(tooMany, outOfReach);
    const keys = Array.from(targets, (namespace) => this.objects.keyOf(rule, { namespace, name: place.name }));
    const claims = [...claimAll(keys, { ...claim, shape: new SyncShape(options) }), ...far];
    return { ...nothing, claims, outOfReach };
  }

  #near(targets: Iterable<ResourceKey>): ResourceKey[] {
    return [...targets].filter((target) => parseResourceKey(target).cluster === this.#scope.cluster);
  }

  /** The claims in other clusters. A mistake, or a cluster that is not known yet, leaves the copies as they are. */
  #farClaims(
    rule: RuleKey,
    claim: Omit<Claim, 'shape'>,
    options: SyncShapeOptions,
    view: EngineView,
  ): readonly Claimed[] {
    const { keys, problems, unknown } = this.#farOf(rule);
    const fromCluster = this.#clusters?.uidOf(this.#scope.cluster);
    const owned = [...view.ownedBy(rule)].filter((key) => parseResourceKey(key).cluster !== this.#scope.cluster);
    const cause = problems[0] ?? unknown[0];
    // While one context is unknown, it may be the one that a copy belongs to.
    const left = cause === undefined ? [] : owned.filter((key) => problems.length > 0 || !keys.includes(key));
    const claims = cause === undefined ? [] : leavingClaims(claim.owner, left, cause);
    if (problems.length > 0 || typeof fromCluster !== 'string') return claims;
    const shape = new SyncShape({ ...options, fromCluster });
    return [...claims, ...claimAll(keys, { ...claim, shape })];
  }

  /** Whether the rule names other clusters. */
  isFar(rule: RuleKey): boolean {
    return contextsIn(this.objects.of(rule).observed?.annotations ?? {}).length > 0;
  }

  #farOf(rule: RuleKey): Far {
    const { kind, place, observed } = this.objects.of(rule);
    const contexts = contextsIn(observed?.annotations ?? {});
    return farOf({ contexts, kind: kind.kind, place }, this.#clusters, this.#scope.cluster);
  }

  #refusalOf(namespace: string, annotations: Observed['annotations']): Cause | undefined {
    if (annotations[SUSPEND_ANNOTATION] === 'true') return SUSPENDED;
    const { sourceNamespace } = this.#scope.config.configSyncer;
    if (sourceNamespace === undefined || sourceNamespace === namespace) return undefined;
    const limit = `annotations count only in the namespace ${sourceNamespace} (--config-source-namespace)`;
    return because('NotPermitted', limit);
  }

  markOn({ labels, annotations }: Observed, target: ResourceKey): Mark | undefined {
    const { cluster, kind, ...place } = parseResourceKey(target);
    const home = this.#scope.cluster;
    const source =
      cluster === home
        ? sourceIn(place, labels, annotations, this.#clusterName)
        : this.#farSourceIn(kind, place, { labels, annotations });
    const rule = source && this.objects.ruleOf(resourceKey(home, kind, source.namespace, source.name));
    // All clusters may have the same name, and a copy from another one has the same marks.
    return rule && { rule, doubt: 'its source may be in another cluster' };
  }

  #farSourceIn(kindName: string, place: Place, marks: Pick<Observed, 'labels' | 'annotations'>): Place | undefined {
    const uid = this.#clusters?.uidOf(this.#scope.cluster);
    const kind = this.objects.kinds.find((one) => one.kind === kindName);
    if (typeof uid !== 'string' || kind === undefined) return undefined;
    const uidOf = ({ namespace, name }: Place): string | undefined => this.#find(kind, namespace, name)?.uid;
    return farSourceIn(place, marks, { clusterName: this.#clusterName, uid, uidOf });
  }

  orphanPolicy(): 'delete' {
    return 'delete';
  }

  /** The claims, where a conflict with a copy from another cluster says so. */
  named(claims: Iterable<Entry>): Entry[] {
    return Array.from(claims, (entry) => {
      if (entry.outcome.state !== 'conflict') return entry;
      const { cluster: at, kind, namespace, name } = parseResourceKey(entry.target);
      if (at !== this.#scope.cluster) return entry;
      const found = this.objects.kinds.find((one) => one.kind === kind);
      const cluster = found && otherClusterIn(this.#find(found, namespace, name)?.labels ?? {}, this.#clusterName);
      if (cluster === undefined) return entry;
      return {
        ...entry,
        outcome: { state: 'conflict', ...originConflict(cluster, this.#clusterName) },
      };
    });
  }

  warningsOf(rule: RuleKey): readonly RuleEvent[] {
    const annotations = this.objects.of(rule).observed?.annotations ?? {};
    const { problems, unknown } = this.#farOf(rule);
    const selection = this.isFar(rule) ? selectionIn(annotations) : undefined;
    const found: Pick<Cause, 'reason' | 'message'>[] = [...problems, ...unknown.filter((one) => one !== UNIDENTIFIED)];
    // The event of a refusal, if the mistake does not concern the other clusters.
    if (selection !== undefined && 'reason' in selection) found.push(selection);
    return found.map(warning);
  }

  selects(rule: RuleKey, object: ResourceKey): boolean | undefined {
    const { cluster, kind, namespace, name } = parseResourceKey(object);
    const { place, observed, kind: own } = this.objects.of(rule);
    if (cluster !== this.#scope.cluster) return this.#farOf(rule).keys.includes(object) || undefined;
    if (observed === undefined || own.kind !== kind || place.name !== name || place.namespace === namespace)
      return undefined;
    const selection = selectionIn(observed.annotations);
    if (selection === undefined) return undefined;
    // A selector that cannot be read selects nothing.
    if ('reason' in selection) return false;
    return selectsNow(selection, namespace, this.#scope.namespaces);
  }
}
