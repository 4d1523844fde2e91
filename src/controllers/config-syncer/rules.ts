/**
 * Turns objects with annotations of config-syncer into claims (see `AnnotatedRules`). A rule claims a copy of its name in
 * each namespace that its selector selects, except its own.
 */
import type { Entry } from '../../copy/book/claim-book.ts';
import { because, type Cause } from '../../copy/model/cause.ts';
import { claimAll, type Claimed, leavingClaims } from '../../copy/model/claim.ts';
import { parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation, Mark } from '../../copy/model/rule-set.ts';
import { AnnotatedRules, type Annotations, type FindObject, type FoundRule } from '../common/annotated/rules.ts';
import type { Place } from '../common/annotated/values.ts';
import type { RuleScope } from '../common/context.ts';
import type { NamespaceSelection } from '../common/namespaces/selection.ts';
import { type Clusters, clustersText, type Far, farOf, UNIDENTIFIED } from './other-clusters.ts';
import { SyncShape, type SyncShapeOptions } from './shape.ts';
import {
  contextsIn,
  farSourceIn,
  isReadAnnotation,
  isRule,
  originConflict,
  otherClusterIn,
  selectionIn,
  sourceIn,
  userText,
} from './words.ts';

/** What a source without a selector selects in this cluster. */
const NOWHERE: NamespaceSelection = { names: new Set(), patterns: [] };

export class ConfigSyncerRules extends AnnotatedRules {
  readonly #clusters: Clusters | undefined;
  readonly #clusterName: string;

  /** @param clusters `undefined`: annotations for other clusters are not evaluated, as in commands */
  constructor(scope: RuleScope, find: FindObject, clusters?: Clusters) {
    super(scope, find, { name: 'config-syncer', kinds: [SECRET, CONFIG_MAP], isRead: isReadAnnotation });
    this.#clusters = clusters;
    this.#clusterName = scope.config.configSyncer.clusterName;
  }

  protected textOf({ annotations }: Observed): string | undefined {
    if (!isRule(annotations)) return undefined;
    return `${userText(annotations)} ${clustersText(contextsIn(annotations), this.#clusters, this.scope.cluster)}`;
  }

  protected async evaluated(found: FoundRule): Promise<Evaluation> {
    const { place, observed, owner, owned, refused } = found;
    const { uid, annotations } = observed;
    const { sourceNamespace } = this.scope.config.configSyncer;
    if (sourceNamespace !== undefined && sourceNamespace !== place.namespace) {
      const limit = `annotations count only in the namespace ${sourceNamespace} (--config-source-namespace)`;
      return refused(because('NotPermitted', limit));
    }
    const selected = selectionIn(annotations) ?? NOWHERE;
    const [selection, mistake] = 'reason' in selected ? [NOWHERE, selected] : [selected];
    const options = { source: place, uid, clusterName: this.#clusterName, text: userText(annotations) };
    const near = await this.pushed(found, { selection }, new SyncShape(options));
    if (near.refusal !== undefined || near.outOfReach?.part === 'all') return near;
    const far = this.#farClaims(found, options);
    if (mistake === undefined) return { ...near, claims: [...near.claims, ...far] };
    if (far.length === 0) return refused(mistake);
    // The event about the selector is that of a refusal, but it does not concern the other clusters.
    const left = owned().filter((target) => parseResourceKey(target).cluster === this.scope.cluster);
    return { ...near, claims: [...leavingClaims(owner, left, mistake), ...far] };
  }

  /** The claims in other clusters. A mistake, or a cluster that is not known yet, leaves the copies as they are. */
  #farClaims({ rule, place, owner, owned }: FoundRule, options: SyncShapeOptions): readonly Claimed[] {
    const { keys, problems, unknown } = this.#farOf(rule);
    const fromCluster = this.#clusters?.uidOf(this.scope.cluster);
    const cause = problems[0] ?? unknown[0];
    const isFarCopy = (key: ResourceKey): boolean => parseResourceKey(key).cluster !== this.scope.cluster;
    // While one context is unknown, it may be the one that a copy belongs to.
    const isLeft = (key: ResourceKey): boolean => isFarCopy(key) && (problems.length > 0 || !keys.includes(key));
    const claims = cause === undefined ? [] : leavingClaims(owner, owned().filter(isLeft), cause);
    if (problems.length > 0 || typeof fromCluster !== 'string') return claims;
    const shape = new SyncShape({ ...options, fromCluster });
    return [...claims, ...claimAll(keys, { owner, mode: 'own', source: this.keyOf(rule, place), shape })];
  }

  /** Whether the rule names other clusters. */
  isFar(rule: RuleKey): boolean {
    return contextsIn(this.annotationsOf(rule) ?? {}).length > 0;
  }

  #farOf(rule: RuleKey): Far {
    const { kind, place } = this.objectOf(rule);
    const contexts = contextsIn(this.annotationsOf(rule) ?? {});
    return farOf({ contexts, kind: kind.kind, place }, this.#clusters, this.scope.cluster);
  }

  markOn({ labels, annotations }: Observed, target: ResourceKey): Mark | undefined {
    const { cluster, kind, ...place } = parseResourceKey(target);
    const home = this.scope.cluster;
    const source =
      cluster === home
        ? sourceIn(place, labels, annotations, this.#clusterName)
        : this.#farSourceIn(kind, place, { labels, annotations });
    const rule = source && this.ruleOf(resourceKey(home, kind, source.namespace, source.name));
    // All clusters may have the same name, and a copy from another one has the same marks.
    return rule && { rule, doubt: 'its source may be in another cluster' };
  }

  #farSourceIn(kindName: string, place: Place, marks: Pick<Observed, 'labels' | 'annotations'>): Place | undefined {
    const uid = this.#clusters?.uidOf(this.scope.cluster);
    const kind = this.kindNamed(kindName);
    if (typeof uid !== 'string' || kind === undefined) return undefined;
    const uidOf = ({ namespace, name }: Place): string | undefined => this.find(kind, namespace, name)?.uid;
    return farSourceIn(place, marks, { clusterName: this.#clusterName, uid, uidOf });
  }

  /** A conflict with a copy from another cluster says so. */
  override named(claims: Iterable<Entry>): Entry[] {
    return Array.from(claims, (entry) => {
      if (entry.outcome.state !== 'conflict') return entry;
      const { cluster: at, kind, namespace, name } = parseResourceKey(entry.target);
      if (at !== this.scope.cluster) return entry;
      const found = this.kindNamed(kind);
      const cluster = found && otherClusterIn(this.find(found, namespace, name)?.labels ?? {}, this.#clusterName);
      if (cluster === undefined) return entry;
      return {
        ...entry,
        outcome: { state: 'conflict', ...originConflict(cluster, this.#clusterName) },
      };
    });
  }

  protected override problemsOf(rule: RuleKey): readonly Cause[] {
    const { problems, unknown } = this.#farOf(rule);
    const selection = this.isFar(rule) ? selectionIn(this.annotationsOf(rule) ?? {}) : undefined;
    // The event of a refusal, if the mistake does not concern the other clusters.
    const mistake = selection !== undefined && 'reason' in selection ? [selection] : [];
    return [...problems, ...unknown.filter((one) => one !== UNIDENTIFIED), ...mistake];
  }

  protected override copies(place: Place, annotations: Annotations, name: string): boolean {
    return name === place.name && selectionIn(annotations) !== undefined;
  }

  protected selectionOf(_place: Place, annotations: Annotations): NamespaceSelection {
    const selection = selectionIn(annotations) ?? NOWHERE;
    // A selector that cannot be read selects nothing.
    return 'reason' in selection ? NOWHERE : selection;
  }

  override selects(rule: RuleKey, object: ResourceKey): (() => boolean | undefined) | undefined {
    if (parseResourceKey(object).cluster === this.scope.cluster) return super.selects(rule, object);
    return this.#farOf(rule).keys.includes(object) ? () => true : undefined;
  }
}
