/**
 * Reads the SyncSecrets for `status` and `plan`, in a tenant cluster or in the management cluster. The copy of a
 * propagated SyncSecret is in the other cluster. The commands do not read that cluster, but the status shows the
 * result. Any other SyncSecret becomes a Secret in the same namespace.
 */
import { KeyLists } from '../../copy/model/key-lists.ts';
import { COPY_LABEL, observe, type Observed } from '../../copy/model/observed.ts';
import { parseResourceKey, type ResourceKey, resourceKey, ruleName } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import { type Place, placeText } from '../snapshot/places.ts';
import type { Description, RuleReader, SnapshotView, Unwanted } from '../snapshot/reader.ts';
import { RuleStore } from '../../copy/engine/life/rule-store.ts';
import type { Inventory, RuleCollection } from '../snapshot/inventory.ts';
import type { RuleScope } from '../../controllers/common/context.ts';
import { type RuleState, stateByCondition } from '../snapshot/rule-state.ts';
import {
  MANAGED_BY_KUBELB,
  MANAGED_BY_LABEL,
  SYNC_SECRET,
  SYNC_SECRET_CRD_ADVICE,
  SYNC_SECRET_FINALIZER,
  SYNCED_CONDITION,
} from '../../controllers/syncsecret/api.ts';
import { MANAGER_CONTROLLER, ManagerRules } from '../../controllers/syncsecret/rules/sync-secret-rule-set.ts';
import {
  COPY_OF_SYNC_SECRET,
  originPlace,
  SECRET_ANNOTATION,
  SOURCE_VERSION_ANNOTATION,
} from '../../controllers/syncsecret/rules/marks.ts';
import { ruleOf, ruleVersion, type SyncSecretRule } from '../../controllers/syncsecret/rules/rule.ts';

export const SYNC_SECRETS: RuleCollection = {
  kind: SYNC_SECRET.kind,
  groupPath: SYNC_SECRET.groupPath,
  plural: SYNC_SECRET.plural,
  apiVersions: new Map([[SYNC_SECRET.apiVersion, undefined]]),
  notInstalled: SYNC_SECRET_CRD_ADVICE.missing,
  content: SYNC_SECRET,
  isRare: true,
};

export class SyncSecretReader implements RuleReader {
  readonly versionMark = SOURCE_VERSION_ANNOTATION;
  readonly ruleSet: ManagerRules;
  readonly #cluster: string;
  readonly #inventory: Inventory;
  /** Whether a manager serves SyncSecrets of this cluster. */
  #hasManager = false;
  /** All SyncSecrets of the cluster, each with the rule key that the manager gives it. */
  readonly #all: RuleStore<SyncSecretRule>;
  /** The namespaces of the management cluster that get copies of SyncSecrets of this cluster. */
  readonly #propagatedTo = new Set<string>();

  constructor(inventory: Inventory, scope: RuleScope) {
    this.#inventory = inventory;
    this.#cluster = scope.cluster;
    const lists = new KeyLists();
    const all = (this.#all = new RuleStore({
      controller: MANAGER_CONTROLLER,
      toRule: (object) => ruleOf(object, lists),
      versionOf: ruleVersion,
      onChange: (_key, rule) => {
        if (rule?.propagated !== undefined) this.#propagatedTo.add(rule.propagated);
        this.#hasManager ||= rule !== undefined && isManaged(rule);
      },
    }));
    inventory.include(SYNC_SECRETS, (item) => {
      all.put(item);
      const { namespace = '', name } = item.metadata;
      const key = resourceKey(scope.cluster, SYNC_SECRET.kind, namespace, name);
      inventory.objects.set(key, observe(item.metadata, SYNC_SECRET));
    });
    this.ruleSet = new ManagerRules(scope, {
      store: {
        get: (key) => {
          const rule = all.get(key);
          return rule !== undefined && isManaged(rule) ? rule : undefined;
        },
        key: (namespace, name) => all.key(namespace, name),
      },
      isServed: () => true,
    });
  }

  describe(object: ResourceKey): Description | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    const rule = kind === SYNC_SECRET.kind ? this.#all.get(this.#all.key(namespace, name)) : undefined;
    if (rule === undefined) return undefined;
    const { metadata, propagated } = rule;
    const from = this.#sourceOf(rule);
    const there = { cluster: 'management', kind: SYNC_SECRET.kind, namespace: propagated ?? '', name: metadata.uid };
    return {
      source: placeText(from),
      from,
      destinations: [propagated === undefined ? `secret ${namespace}/${metadata.uid}` : placeText(there)],
      elsewhere: propagated === undefined ? [] : [there],
      state: () => {
        const state = stateOf(rule);
        const since = rule.status.conditions?.[0]?.lastTransitionTime;
        return { ...state, lastSyncTime: (state.ready ? since : undefined) ?? null };
      },
      notes: isManaged(rule) ? [] : [this.#fateOf(rule)],
    };
  }

  /** Explains where the Secret of a SyncSecret will be, if it is in another cluster or has no name yet. */
  #fateOf({ metadata: { namespace = '' }, propagated }: SyncSecretRule): string {
    const unread = 'this command does not read that cluster';
    if (propagated !== undefined)
      return `is copied to namespace ${propagated} of the management cluster, and the Secret there gets its content; ${unread}`;
    // No controller has seen it yet. Other SyncSecrets show the kind of this cluster.
    const here = `becomes a Secret in namespace ${namespace} of this cluster; its name is the uid that the SyncSecret gets when it is created`;
    // If CCM and manager both serve this cluster, the manager serves the namespaces of the copies.
    if (this.#hasManager && (this.#propagatedTo.size === 0 || this.#propagatedTo.has(namespace))) return here;
    const [place, ...others] = this.#propagatedTo;
    if (place === undefined)
      return `${here}. If this is a tenant cluster, it is copied to the management cluster instead, and becomes a Secret there`;
    const where = others.length === 0 ? `namespace ${place}` : 'the tenant’s namespace';
    return `is copied to ${where} of the management cluster, and becomes a Secret there; ${unread}`;
  }

  /** Names the SyncSecret that a user wrote. If this one is a copy, that is the SyncSecret in the tenant's cluster. */
  #sourceOf({ metadata, origin }: SyncSecretRule): Place {
    const { namespace = '', name } = metadata;
    const observed = this.#inventory.objects.get(resourceKey(this.#cluster, SYNC_SECRET.kind, namespace, name));
    const tenants = origin === 'another' && observed !== undefined ? originPlace(observed) : undefined;
    const [place = namespace, tenantName = name] = tenants?.split('/') ?? [];
    return {
      cluster: tenants === undefined ? '' : 'tenant',
      kind: SYNC_SECRET.kind,
      namespace: place,
      name: tenantName,
    };
  }

  uses({ labels }: Observed): string | undefined {
    return labels[MANAGED_BY_LABEL] === MANAGED_BY_KUBELB
      ? `the label ${MANAGED_BY_LABEL} offers it to the secret synchronizer`
      : undefined;
  }

  /** Finds Secrets without their SyncSecret, and SyncSecrets of the synchronizer without their Secret. */
  unwanted(key: ResourceKey, observed: Observed, { claims }: SnapshotView): Unwanted | undefined {
    const inventory = this.#inventory;
    const { kind, namespace, name } = parseResourceKey(key);
    if (kind === SYNC_SECRET.kind && observed.annotations[SECRET_ANNOTATION] === name) {
      const secret = inventory.objects.get(resourceKey(this.#cluster, SECRET.kind, namespace, name));
      if (secret?.labels[MANAGED_BY_LABEL] === MANAGED_BY_KUBELB || !inventory.isListed(SECRET.kind, namespace))
        return undefined;
      const why = 'its Secret is gone, or no longer has the label; the secret synchronizer will delete it';
      return { owner: `${namespace}/${name}`, why, isIgnored: true };
    }
    if (kind !== SECRET.kind || observed.labels[COPY_LABEL] !== COPY_OF_SYNC_SECRET) return undefined;
    const owner = claims.ownersOf(observed, key)[0];
    if (owner === undefined) {
      return { owner: '', why: 'its marks were changed, or it is a clone; Keyferry ignores it', isIgnored: true };
    }
    if (claims.book.claims(owner, key) || !inventory.isListed(SYNC_SECRET.kind, namespace)) return undefined;
    const tenants = originPlace(observed);
    const whose = tenants === undefined ? '' : ` (of ${tenants} in tenant)`;
    const what = this.#all.get(owner) !== undefined ? 'was created again' : 'does not exist';
    return { owner: ruleName(owner), why: `its SyncSecret${whose} ${what}` };
  }
}

/**
 * Whether the manager of this cluster makes a Secret of the SyncSecret. `false` also if a SyncSecret is no copy and no
 * controller has seen it yet: then this may be a tenant cluster.
 */
function isManaged({ metadata, origin, propagated, status }: SyncSecretRule): boolean {
  if (origin === 'another') return true;
  if (propagated !== undefined || metadata.uid.startsWith('new ')) return false;
  return metadata.finalizers.includes(SYNC_SECRET_FINALIZER) || status.phase !== undefined;
}

function stateOf(rule: SyncSecretRule): RuleState {
  const { phase = 'Unknown' } = rule.status;
  const state = stateByCondition(rule, SYNCED_CONDITION, phase);
  // In the phase Terminating the condition is True, but the SyncSecret is not ready.
  return { ...state, ready: state.ready && phase === 'Synced' };
}
