/**
 * Reads the SyncSecrets for `status` and `plan`, in a tenant cluster or in the management cluster. The Secret of a
 * tenant's SyncSecret is in the other cluster. The commands do not read that cluster, but the status shows the result.
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

const NOT_HERE =
  'becomes a Secret: in a tenant cluster in the management cluster, which this command does not read; elsewhere in its own namespace, named by its uid';

export class SyncSecretReader implements RuleReader {
  readonly versionMark = SOURCE_VERSION_ANNOTATION;
  readonly ruleSet: ManagerRules;
  readonly #cluster: string;
  readonly #inventory: Inventory;
  /** All SyncSecrets of the cluster, each with the rule key that the manager gives it. */
  readonly #all: RuleStore<SyncSecretRule>;

  constructor(inventory: Inventory, scope: RuleScope) {
    this.#inventory = inventory;
    this.#cluster = scope.cluster;
    const lists = new KeyLists();
    const all = (this.#all = new RuleStore({
      controller: MANAGER_CONTROLLER,
      toRule: (object) => ruleOf(object, lists),
      versionOf: ruleVersion,
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
          return rule !== undefined && this.#isHere(rule) ? rule : undefined;
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
    const { uid } = rule.metadata;
    const isHere = this.#isHere(rule);
    const from = this.#sourceOf(rule);
    // Only the CCM knows its namespace.
    const there = { cluster: 'management', kind: SYNC_SECRET.kind, namespace: '', name: uid };
    return {
      source: placeText(from),
      from,
      destinations: [isHere ? `secret ${namespace}/${uid}` : placeText(there)],
      elsewhere: isHere ? [] : [there],
      state: () => {
        const state = stateOf(rule);
        const since = rule.status.conditions?.[0]?.lastTransitionTime;
        return { ...state, lastSyncTime: (state.ready ? since : undefined) ?? null };
      },
      notes: isHere ? [] : [NOT_HERE],
    };
  }

  /** Whether its Secret is in this cluster. That of a copy is; otherwise only the Secret itself shows it. */
  #isHere({ metadata: { namespace = '', uid }, origin }: SyncSecretRule): boolean {
    return origin === 'another' || this.#inventory.objects.has(resourceKey(this.#cluster, SECRET.kind, namespace, uid));
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

function stateOf(rule: SyncSecretRule): RuleState {
  const { phase = 'Unknown' } = rule.status;
  const state = stateByCondition(rule, SYNCED_CONDITION, phase);
  // In the phase Terminating the condition is True, but the SyncSecret is not ready.
  return { ...state, ready: state.ready && phase === 'Synced' };
}
