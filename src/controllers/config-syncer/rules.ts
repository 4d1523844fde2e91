/**
 * Turns objects with annotations of config-syncer into claims (see `RuleSet`). A rule is such an object, with the key
 * `config-syncer:<Kind>/<namespace>/<name>`. It claims a copy of its name in each namespace that its selector selects,
 * except its own.
 */
import type { Entry } from '../../copy/book/claim-book.ts';
import type { RuleEvent } from '../../copy/engine/controller.ts';
import { warning } from '../../copy/engine/life/warnings.ts';
import { because, type Cause, nobodyCause } from '../../copy/model/cause.ts';
import { claimAll, leavingClaims, type Owner, rankOf } from '../../copy/model/claim.ts';
import { parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { EngineView, Evaluation, OutOfReach } from '../../copy/model/rule-set.ts';
import type { AnnotatedRules } from '../common/annotated/controller.ts';
import { AnnotatedObjects, type FindObject } from '../common/annotated/objects.ts';
import { SUSPEND_ANNOTATION, SUSPENDED } from '../common/annotated/report.ts';
import type { RuleScope } from '../common/context.ts';
import { labelKeysOf, selectsNow } from '../common/namespaces/selection.ts';
import { RuleTargets } from '../common/rules/rule-targets.ts';
import { SyncShape } from './shape.ts';
import {
  isAnnotated,
  isRule,
  NAMES,
  originConflict,
  otherClusterIn,
  selectionIn,
  sourceIn,
  userText,
} from './words.ts';

const LABELS_UNKNOWN = nobodyCause('Pending', 'the labels of the namespaces are being read');
const NO_CONTEXTS = because(
  'Unsupported',
  `annotation ${NAMES.contexts}: this version of Keyferry copies into no other cluster by annotations`,
);

export class ConfigSyncerRules implements AnnotatedRules {
  readonly name = 'config-syncer';
  readonly objects: AnnotatedObjects;
  readonly rulesFor: RuleTargets['rulesFor'];
  readonly labelsOf: RuleTargets['labelsOf'];
  readonly isKept = isAnnotated;
  readonly #scope: RuleScope;
  readonly #find: FindObject;
  readonly #clusterName: string;
  readonly #targets: RuleTargets;

  constructor(scope: RuleScope, find: FindObject) {
    const { cluster, config } = scope;
    this.#scope = scope;
    this.#find = find;
    this.#clusterName = config.configSyncer.clusterName;
    this.objects = new AnnotatedObjects({ controller: this.name, cluster, kinds: [SECRET, CONFIG_MAP], find });
    this.#targets = new RuleTargets(scope, 'the annotated objects');
    this.rulesFor = this.#targets.rulesFor;
    this.labelsOf = this.#targets.labelsOf;
  }

  versionOf({ uid, annotations }: Observed): string | undefined {
    return isRule(annotations) ? `${uid} ${userText(annotations)}` : undefined;
  }

  /** The keys of the labels that a rule reads of namespaces. */
  labelKeysOf(rule: RuleKey): readonly string[] {
    const selection = selectionIn(this.objects.of(rule).observed?.annotations ?? {});
    return selection === undefined || 'reason' in selection ? [] : labelKeysOf(selection);
  }

  async evaluate(rule: RuleKey, view: EngineView): Promise<Evaluation | undefined> {
    const { kind, place, observed } = this.objects.of(rule);
    const version = observed && this.versionOf(observed);
    if (observed === undefined || version === undefined) {
      this.#targets.leave(rule);
      return undefined;
    }
    const { uid, annotations, created } = observed;
    const title = `${kind.kind} ${place.namespace}/${place.name}`;
    const owner: Owner = { key: rule, title, rank: rankOf(created, uid) };
    const refused = (refusal: Cause, outOfReach?: OutOfReach): Evaluation => {
      const claims = leavingClaims(owner, view.ownedBy(rule), refusal);
      return { owner, version, refusal, claims, sources: [], outOfReach };
    };
    const selection = this.#refusalOf(place.namespace, annotations) ?? selectionIn(annotations);
    if (selection === undefined || 'reason' in selection) {
      this.#targets.leave(rule);
      return selection === undefined ? { owner, version, claims: [], sources: [] } : refused(selection);
    }
    const isKnown = this.#scope.namespaces.knows(labelKeysOf(selection));
    const { targets, refusal: cause, outOfReach } = await this.#targets.find(rule, { selection });
    if (cause !== undefined || !isKnown) return refused(cause ?? LABELS_UNKNOWN, outOfReach);
    const keys = Array.from(targets, (namespace) => this.objects.keyOf(rule, { namespace, name: place.name }));
    const text = userText(annotations);
    const shape = new SyncShape({ source: place, uid, clusterName: this.#clusterName, text });
    const claims = claimAll(keys, { owner, mode: 'own', source: this.objects.keyOf(rule, place), shape });
    return { owner, version, claims, sources: [], outOfReach };
  }

  #refusalOf(namespace: string, annotations: Observed['annotations']): Cause | undefined {
    if (annotations[SUSPEND_ANNOTATION] === 'true') return SUSPENDED;
    const { sourceNamespace } = this.#scope.config.configSyncer;
    if (sourceNamespace === undefined || sourceNamespace === namespace) return undefined;
    const limit = `annotations count only in the namespace ${sourceNamespace} (--config-source-namespace)`;
    return because('NotPermitted', limit);
  }

  ownerOf({ labels, annotations }: Observed, target: ResourceKey): RuleKey | undefined {
    const { cluster, kind, ...place } = parseResourceKey(target);
    const source = sourceIn(place, labels, annotations, this.#clusterName);
    return source && this.objects.ruleOf(resourceKey(cluster, kind, source.namespace, source.name));
  }

  orphanPolicy(): 'delete' {
    return 'delete';
  }

  /** All clusters may have the same name, and a copy from another one has the same marks. */
  whyNoCopy(): string {
    return 'its source may be in another cluster';
  }

  /** The claims, where a conflict with a copy from another cluster says so. */
  named(claims: Iterable<Entry>): Entry[] {
    return Array.from(claims, (entry) => {
      if (entry.outcome.state !== 'conflict') return entry;
      const { kind, namespace, name } = parseResourceKey(entry.target);
      const found = this.objects.kinds.find((one) => one.kind === kind);
      const cluster = found && otherClusterIn(this.#find(found, namespace, name)?.labels ?? {}, this.#clusterName);
      if (cluster === undefined) return entry;
      return { ...entry, outcome: { state: 'conflict', ...originConflict(cluster, this.#clusterName) } };
    });
  }

  warningsOf(rule: RuleKey, outOfReach: OutOfReach | undefined): readonly RuleEvent[] {
    const annotations = this.objects.of(rule).observed?.annotations ?? {};
    const found: Pick<Cause, 'reason' | 'message'>[] = NAMES.contexts in annotations ? [NO_CONTEXTS] : [];
    if (outOfReach !== undefined && outOfReach.part !== 'none') found.push(outOfReach);
    return found.map(warning);
  }

  selects(rule: RuleKey, object: ResourceKey): boolean | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    const { place, observed, kind: own } = this.objects.of(rule);
    if (observed === undefined || own.kind !== kind || place.name !== name || place.namespace === namespace)
      return undefined;
    const selection = selectionIn(observed.annotations);
    if (selection === undefined) return undefined;
    // A selector that cannot be read selects nothing.
    if ('reason' in selection) return false;
    return selectsNow(selection, namespace, this.#scope.namespaces);
  }
}
