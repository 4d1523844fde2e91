/** What the SyncSecrets of the management cluster mean: claims on Secrets. */
import {
  namespaceOf,
  resourceKey,
  type ResourceKey,
  parseResourceKey,
  type RuleKey,
} from '../../../copy/model/keys.ts';
import { SECRET } from '../../../copy/model/kind.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import { isMarkedElsewhere } from '../../../copy/plan/marks.ts';
import { SYNC_SECRET_API_VERSION, SYNC_SECRET_KIND } from '../api.ts';
import { OWNER_ANNOTATION } from './marks.ts';
import type { LeftDeletions } from './one-cluster.ts';
import type { SyncSecretRule } from './rule.ts';
import { SecretShape } from './shapes.ts';
import { SyncSecretRules, type SyncSecretRulesOptions } from './sync-secret-rule-set.ts';

export const MANAGER_CONTROLLER = 'syncsecret-manager';

/** A token of this type is minted by the control plane for any ServiceAccount. Its data arrive in a Secret of another type. */
const TOKEN_TYPE = 'kubernetes.io/service-account-token';

export interface ManagerRulesOptions extends SyncSecretRulesOptions {
  /** `undefined`: it leaves no deletion to a CCM. */
  readonly leftDeletions?: LeftDeletions;
  readonly isServed: (namespace: string) => boolean;
}

export class ManagerRules extends SyncSecretRules {
  readonly name = MANAGER_CONTROLLER;
  readonly #options: ManagerRulesOptions;

  constructor(options: ManagerRulesOptions) {
    super(options);
    this.#options = options;
  }

  ownerOf({ annotations, owners }: Observed, target: ResourceKey): RuleKey | undefined {
    const place = parseResourceKey(target);
    if (place.cluster !== this.#options.cluster || place.kind !== SECRET.kind) return undefined;
    if (isMarkedElsewhere(annotations, place)) return undefined;
    const name = annotations[OWNER_ANNOTATION] ?? ownerByUid(owners, place.name);
    return name === undefined ? undefined : this.#options.store.key(place.namespace, name);
  }

  /** With another flag, the Secrets of the other namespaces stay. */
  orphanPolicy(rule: RuleKey): 'delete' | 'keep' {
    return this.#options.isServed(namespaceOf(rule)) ? 'delete' : 'keep';
  }

  /** Whether the manager has to do with a SyncSecret now, or leaves its deletion to a CCM. */
  isServed(rule: RuleKey, object: SyncSecretRule): boolean {
    return (this.#options.leftDeletions?.remainingMs(rule, object) ?? 0) === 0;
  }

  isActive({ metadata }: SyncSecretRule): boolean {
    return metadata.deletionTimestamp === undefined;
  }

  protected targetOf({ metadata: { namespace = '', uid } }: SyncSecretRule): ResourceKey {
    return resourceKey(this.#options.cluster, SECRET.kind, namespace, uid);
  }

  protected shapeOf(_rule: RuleKey, object: SyncSecretRule): SecretShape {
    const { name, uid } = object.metadata;
    const owner = { apiVersion: SYNC_SECRET_API_VERSION, kind: SYNC_SECRET_KIND, name, uid };
    return new SecretShape(this.#options.travel, owner, object.immutable, originalTypeOf(object));
  }
}

/** The type of a SyncSecret whose Secret gets another one. */
export function originalTypeOf({ type }: SyncSecretRule): string | undefined {
  return type === TOKEN_TYPE ? type : undefined;
}

/** The SyncSecret in an owner reference with this uid: KubeLB's mark of a Secret, whose name is the uid. */
function ownerByUid(owners: string | undefined, uid: string): string | undefined {
  for (const line of owners?.split('\n') ?? []) {
    const [apiVersion, kind, name, ownerUid] = line.split(' ');
    if (apiVersion === SYNC_SECRET_API_VERSION && kind === SYNC_SECRET_KIND && ownerUid === uid) return name;
  }
  return undefined;
}
