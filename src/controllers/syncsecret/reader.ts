/**
 * The SyncSecrets for `status` and `plan`, in a tenant cluster and in the management cluster. One that is propagated has its copy in the
 * other cluster, which the commands do not read: its status says what came of it. Any other one has its Secret here.
 */
import { KeyLists } from '../../copy/model/key-lists.ts';
import { parseResourceKey, type ResourceKey, resourceKey, type RuleKey, ruleName } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import { observe, type Observed } from '../../copy/model/observed.ts';
import type { KubeObject } from '../../kube/api.ts';
import { RuleStore } from '../common/rules/rule-store.ts';
import type { ControllerReader, ReaderContext, RuleCollection, RuleReader } from '../common/snapshot/reader.ts';
import type { Snapshot } from '../common/snapshot/snapshot.ts';
import {
  byName,
  copyStatus,
  type ControllerStatus,
  type CopyStatus,
  failingOf,
  orphanNote,
  type OrphanStatus,
  type RuleState,
  type RuleStatus,
  stateByCondition,
} from '../common/snapshot/status-report.ts';
import {
  MANAGED_BY_KUBELB,
  MANAGED_BY_LABEL,
  SYNC_SECRET_API_PATH,
  SYNC_SECRET_API_VERSION,
  SYNC_SECRET_CRD_ADVICE,
  SYNC_SECRET_FINALIZER,
  SYNC_SECRET_KIND,
  SYNC_SECRET_PLURAL,
  SYNCED_CONDITION,
} from './api.ts';
import { SYNC_SECRET } from './rules/kind.ts';
import { MANAGER_CONTROLLER, ManagerRules } from './rules/manager-rule-set.ts';
import {
  COPY_LABEL,
  COPY_OF_SYNC_SECRET,
  originPlace,
  SECRET_ANNOTATION,
  SOURCE_VERSION_ANNOTATION,
} from './rules/marks.ts';
import { ruleOf, ruleVersion, type SyncSecretRule } from './rules/rule.ts';
import { Travel } from './rules/travel.ts';

const SYSTEM = 'syncsecret';

const COLLECTION: RuleCollection = {
  kind: SYNC_SECRET_KIND,
  groupPath: SYNC_SECRET_API_PATH,
  plural: SYNC_SECRET_PLURAL,
  apiVersions: new Map([[SYNC_SECRET_API_VERSION, undefined]]),
  notInstalled: SYNC_SECRET_CRD_ADVICE.missing,
  content: SYNC_SECRET,
};

export const syncSecretReader: ControllerReader = {
  collection: COLLECTION,
  open: (context) => new SyncSecretReader(context),
};

class SyncSecretReader implements RuleReader {
  readonly ruleNames = 'SyncSecrets';
  readonly ruleSet: ManagerRules;
  readonly #cluster: string;
  /** A manager serves SyncSecrets of this cluster. */
  #hasManager = false;
  readonly #labelsOf: (object: ResourceKey) => Observed['labels'];
  readonly #lists = new KeyLists();
  /** Rules of the manager. */
  readonly #managed: RuleStore<SyncSecretRule>;
  /** All, by `<namespace>/<name>`. */
  readonly #all = new Map<string, SyncSecretRule>();
  /** The namespaces of the management cluster that the SyncSecrets of this one are copied to. */
  readonly #propagatedTo = new Set<string>();

  constructor({ api, config, inventory }: ReaderContext) {
    this.#labelsOf = (object) => inventory.objects.get(object)?.labels ?? {};
    this.#cluster = api.cluster;
    this.#managed = new RuleStore({
      controller: MANAGER_CONTROLLER,
      toRule: (object) => {
        const rule = ruleOf(object, this.#lists);
        return isManaged(rule) ? rule : undefined;
      },
      versionOf: ruleVersion,
    });
    inventory.include(COLLECTION, (item) => {
      this.#put(item);
      const { namespace = '', name } = item.metadata;
      const key = resourceKey(api.cluster, SYNC_SECRET_KIND, namespace, name);
      inventory.objects.set(key, observe(item.metadata, SYNC_SECRET));
    });
    this.ruleSet = new ManagerRules({
      cluster: api.cluster,
      store: this.#managed,
      travel: new Travel(config.syncsecret),
      isServed: () => true,
    });
  }

  #put(item: KubeObject): void {
    const rule = ruleOf(item, this.#lists);
    this.#all.set(`${rule.metadata.namespace}/${rule.metadata.name}`, rule);
    if (rule.propagated !== undefined) this.#propagatedTo.add(rule.propagated);
    this.#hasManager ||= isManaged(rule);
    this.#managed.put(item);
  }

  *rules(): Iterable<RuleKey> {
    for (const [rule] of this.#managed.all()) yield rule;
  }

  ruleOf(object: ResourceKey): RuleKey | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    return kind === SYNC_SECRET_KIND ? this.#managed.key(namespace, name) : undefined;
  }

  titleOf(rule: RuleKey): string {
    return `${SYNC_SECRET_KIND} ${ruleName(rule)}`;
  }

  problemsOf(): readonly string[] {
    return [];
  }

  /** The label offers a Secret to the synchronizer, of KubeLB or of Keyferry. */
  heldBy(object: ResourceKey): string | undefined {
    const isOffered = this.#labelsOf(object)[MANAGED_BY_LABEL] === MANAGED_BY_KUBELB;
    return isOffered ? `the label ${MANAGED_BY_LABEL} offers it to the secret synchronizer` : undefined;
  }

  /** What becomes of a SyncSecret whose Secret is not in this cluster, or has no name yet. */
  notesOf(object: ResourceKey): readonly string[] {
    const { kind, namespace, name } = parseResourceKey(object);
    const rule = kind === SYNC_SECRET_KIND ? this.#all.get(`${namespace}/${name}`) : undefined;
    if (rule === undefined || isManaged(rule)) return [];
    const { propagated } = rule;
    if (propagated !== undefined)
      return [
        `is copied to namespace ${propagated} of the management cluster, and the Secret there gets its content; this command does not read that cluster`,
      ];
    return [this.#fateOf(namespace)];
  }

  /** What becomes of a SyncSecret that no program has served. The others show what this cluster is. */
  #fateOf(namespace: string): string {
    const here = `becomes a Secret in namespace ${namespace} of this cluster; its name is the uid that the SyncSecret gets when it is created`;
    // With both programs in one cluster, the manager has the namespaces of the copies.
    if (this.#hasManager && (this.#propagatedTo.size === 0 || this.#propagatedTo.has(namespace))) return here;
    const [place, ...others] = this.#propagatedTo;
    if (place === undefined)
      return `${here}. If this is a tenant cluster, it is copied to the management cluster instead, and becomes a Secret there`;
    const where = others.length === 0 ? `namespace ${place}` : 'the tenant’s namespace';
    return `is copied to ${where} of the management cluster, and becomes a Secret there; this command does not read that cluster`;
  }

  async status(snapshot: Snapshot, isIncluded: (namespace: string) => boolean): Promise<ControllerStatus> {
    const included = [...this.#all.values()].filter(({ metadata }) => isIncluded(metadata.namespace ?? ''));
    const failing = included.filter((rule) => isFailing(snapshot, rule));
    await snapshot.settle(failing.map((rule) => this.#keyOf(rule)));
    return {
      system: SYSTEM,
      installed: snapshot.inventory.reaches.get(SYNC_SECRET_KIND)?.extent !== 'not installed',
      isOptional: true,
      rules: included.map((rule) => this.#statusOf(snapshot, rule)),
      orphans: await this.#orphansOf(snapshot),
    };
  }

  #statusOf(snapshot: Snapshot, rule: SyncSecretRule): RuleStatus {
    const { namespace = '', name, uid } = rule.metadata;
    const key = this.#keyOf(rule);
    const state = stateOf(rule);
    const secret = resourceKey(this.#cluster, SECRET.kind, namespace, uid);
    const observed = snapshot.inventory.objects.get(secret);
    const isHere = isManaged(rule);
    const hasSecret = isHere && observed !== undefined && snapshot.claims.ownerOf(observed, secret) === key;
    return {
      system: SYSTEM,
      kind: SYNC_SECRET_KIND,
      namespace,
      name,
      source: this.#sourceOf(snapshot, rule),
      destinations: [
        rule.propagated === undefined
          ? `secret ${namespace}/${uid}`
          : `syncsecret ${rule.propagated}/${uid} in management`,
      ],
      ...state,
      lastSyncTime: state.ready ? (rule.status.conditions?.[0]?.lastTransitionTime ?? null) : null,
      copies: hasSecret ? [copyOf(snapshot, secret)] : [],
      failing: isFailing(snapshot, rule) ? failingOf(snapshot, key) : [],
    };
  }

  /** The SyncSecret of the user: for a copy, that of the tenant. */
  #sourceOf({ inventory }: Snapshot, { metadata, origin }: SyncSecretRule): string {
    const { namespace = '', name } = metadata;
    const observed = inventory.objects.get(resourceKey(this.#cluster, SYNC_SECRET_KIND, namespace, name));
    const tenants = origin === 'another' && observed !== undefined ? originPlace(observed) : undefined;
    return tenants === undefined ? `syncsecret ${namespace}/${name}` : `syncsecret ${tenants} in tenant`;
  }

  /** Secrets without their SyncSecret, and SyncSecrets of the synchronizer without their Secret. */
  async #orphansOf(snapshot: Snapshot): Promise<OrphanStatus[]> {
    const orphans: OrphanStatus[] = [];
    const unclaimed: { readonly key: ResourceKey; readonly owner: RuleKey }[] = [];
    const { inventory } = snapshot;
    for (const [key, observed] of inventory.objects) {
      const { kind, namespace, name } = parseResourceKey(key);
      if (kind === SYNC_SECRET_KIND && observed.annotations[SECRET_ANNOTATION] === name) {
        const secret = inventory.objects.get(resourceKey(this.#cluster, SECRET.kind, namespace, name));
        if (secret?.labels[MANAGED_BY_LABEL] === MANAGED_BY_KUBELB || !inventory.isListed(SECRET.kind, namespace))
          continue;
        const reason = 'its Secret is gone, or no longer has the label; the secret synchronizer will delete it';
        orphans.push({ system: SYSTEM, ...copyOf(snapshot, key), owner: `${namespace}/${name}`, reason });
      }
      if (kind !== SECRET.kind || observed.labels[COPY_LABEL] !== COPY_OF_SYNC_SECRET) continue;
      const owner = snapshot.claims.ownerOf(observed, key);
      if (owner === undefined) {
        const reason = 'its marks were changed, or it is a clone; Keyferry ignores it';
        orphans.push({ system: SYSTEM, ...copyOf(snapshot, key), owner: '', reason });
      } else if (!snapshot.claims.book.claims(owner, key) && inventory.isListed(SYNC_SECRET_KIND, namespace)) {
        unclaimed.push({ key, owner });
      }
    }
    await snapshot.decide(unclaimed.map(({ key }) => key));
    for (const { key, owner } of unclaimed) {
      const observed = inventory.objects.get(key);
      const tenants = observed === undefined ? undefined : originPlace(observed);
      const whose = tenants === undefined ? '' : ` (of ${tenants} in tenant)`;
      const what = this.#all.has(ruleName(owner)) ? 'was created again' : 'does not exist';
      const why = `its SyncSecret${whose} ${what}`;
      const reason = `${why}; ${orphanNote(snapshot, key)}`;
      orphans.push({ system: SYSTEM, ...copyOf(snapshot, key), owner: ruleName(owner), reason });
    }
    return orphans.toSorted(byName);
  }

  #keyOf({ metadata }: SyncSecretRule): RuleKey {
    return this.#managed.key(metadata.namespace ?? '', metadata.name);
  }
}

/**
 * Whether the manager of this cluster makes a Secret of it. Without a copy's marks, and before a controller has seen it, the SyncSecret
 * may be one of a tenant cluster.
 */
function isManaged({ metadata, origin, propagated, status }: SyncSecretRule): boolean {
  if (origin === 'another') return true;
  if (propagated !== undefined || metadata.uid.startsWith('new ')) return false;
  return metadata.finalizers.includes(SYNC_SECRET_FINALIZER) || status.phase !== undefined;
}

/** Whether the Secret of a SyncSecret is decided, to say what is wrong. */
function isFailing({ inventory }: Snapshot, rule: SyncSecretRule): boolean {
  return isManaged(rule) && !stateOf(rule).ready && !inventory.isRefused(SECRET.kind);
}

function copyOf(snapshot: Snapshot, key: ResourceKey): CopyStatus {
  return copyStatus(key, snapshot.inventory.objects.get(key), SOURCE_VERSION_ANNOTATION);
}

function stateOf(rule: SyncSecretRule): RuleState {
  const { phase = 'Unknown' } = rule.status;
  const state = stateByCondition(rule, SYNCED_CONDITION, phase);
  // The condition is True in the phase Terminating.
  return { ...state, ready: state.ready && phase === 'Synced' };
}
