/**
 * One cluster for both roles: which program serves a SyncSecret.
 *
 *   a copy, by its marks                  the manager
 *   with `PROPAGATED_ANNOTATION`          the CCM
 *   any other in a management namespace   the manager: a tenant may write there, and must not reach the namespace of another tenant
 *   any other                             the CCM, or the manager in a cluster without a CCM
 *
 * Each program learns from the SyncSecrets alone whether the other one is there.
 */
import type { RuleKey } from '../../copy/model/keys.ts';
import { ORIGINAL_FINALIZER, OWN_FINALIZERS, SYNC_SECRET_FINALIZER } from './api.ts';
import type { SyncSecretRule } from './rule.ts';

/** The prefix of the tenants' namespaces in a management cluster. In a tenant's cluster the same name has no meaning. */
const TENANT_PREFIX = 'tenant-';
/** The name of a copy: the uid of its source. */
const UID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** How long the manager leaves a new SyncSecret to a CCM that has served others in this cluster, ms. Another replica may have to take over. */
const CCM_MS = 30_000;
/** As long as there is no SyncSecret that was served by either, ms. */
const UNKNOWN_MS = 2000;
/**
 * How long the manager leaves the deletion of a propagated SyncSecret to the CCM, ms: longer than the CCM takes at most. Then there is no CCM:
 * the object was cloned or restored from the cluster of a tenant, and nobody else would remove the finalizer.
 */
const CCM_DELETION_MS = 120_000;

export interface ManagementNamespacesOptions {
  /** A manager runs in this process. */
  readonly hasManager: boolean;
  /** The management namespace of the CCM. */
  readonly namespace: string;
  /** Namespaces turned out to belong to a manager. @param copy `<namespace>/<name>` of the SyncSecret that shows it */
  readonly onFound: (copy: string) => void;
}

/**
 * For the CCM: the namespaces of its own cluster that belong to a manager. A copy shows it for its namespace alone, because in the cluster of a
 * tenant anybody may write something like a copy into a namespace of this name. Only in the CCM's own management namespace it shows it for all.
 */
export class ManagementNamespaces {
  readonly #options: ManagementNamespacesOptions;
  readonly #found = new Set<string>();
  #all: boolean;

  constructor(options: ManagementNamespacesOptions) {
    this.#options = options;
    this.#all = options.hasManager;
  }

  /** To be called with each SyncSecret of the cluster. */
  learn({ metadata: { namespace = '', name }, origin }: SyncSecretRule): void {
    if (origin !== 'another' || !namespace.startsWith(TENANT_PREFIX) || !UID.test(name) || this.has(namespace)) return;
    this.#found.add(namespace);
    this.#all ||= namespace === this.#options.namespace;
    this.#options.onFound(`${namespace}/${name}`);
  }

  has(namespace: string): boolean {
    return this.#found.has(namespace) || (this.#all && namespace.startsWith(TENANT_PREFIX));
  }

  /** Whether the CCM has to do with a SyncSecret: it copies it, or has to release it. */
  concerns(object: SyncSecretRule): boolean {
    return object.propagated !== undefined || this.isToBeCopied(object);
  }

  isToBeCopied({ metadata: { namespace = '' }, origin }: SyncSecretRule): boolean {
    return origin !== 'another' && !this.has(namespace);
  }
}

/** For the manager: how long it leaves a new SyncSecret to the CCM. */
export class CcmWait {
  readonly #monotonic: () => number;
  readonly #hasCcm: boolean;
  /** Since when each SyncSecret waits, ms, and whether it was being deleted then. */
  readonly #since = new Map<RuleKey, { readonly at: number; readonly isDeleting: boolean }>();
  #ccmFound = false;
  #managerFound = false;

  /** @param hasCcm a CCM runs in this process, for this cluster */
  constructor(hasCcm: boolean, monotonic: () => number) {
    this.#hasCcm = hasCcm;
    this.#monotonic = monotonic;
  }

  /** To be called with each SyncSecret of the cluster. Those in the namespaces of tenants prove nothing. */
  learn({ metadata: { namespace = '', finalizers }, origin, propagated }: SyncSecretRule): void {
    if (origin === 'another' || namespace.startsWith(TENANT_PREFIX)) return;
    if (propagated !== undefined) this.#ccmFound = true;
    else if (finalizers.includes(SYNC_SECRET_FINALIZER)) this.#managerFound = true;
  }

  /** Whether the SyncSecret still waits for the CCM, as `remainingMs` has last decided. */
  has(rule: RuleKey): boolean {
    return this.#since.has(rule);
  }

  /** @param object `undefined`: it is no rule of the manager @returns ms; 0: the SyncSecret is the manager's */
  remainingMs(rule: RuleKey, object: SyncSecretRule | undefined): number {
    const isDeleting = object?.metadata.deletionTimestamp !== undefined;
    const before = this.#since.get(rule);
    const since = before?.isDeleting === isDeleting ? before : { at: this.#monotonic(), isDeleting };
    const remainingMs = since.at + this.#limitMs(object) - this.#monotonic();
    if (remainingMs > 0) this.#since.set(rule, since);
    else this.#since.delete(rule);
    return Math.max(0, remainingMs);
  }

  #limitMs(object: SyncSecretRule | undefined): number {
    if (object === undefined || object.origin === 'another') return 0;
    const { namespace = '', finalizers, deletionTimestamp } = object.metadata;
    if (object.propagated !== undefined) {
      const isHeld = finalizers.some((one) => OWN_FINALIZERS.has(one));
      return deletionTimestamp === undefined || this.#hasCcm || !isHeld ? Infinity : CCM_DELETION_MS;
    }
    if (namespace.startsWith(TENANT_PREFIX) || finalizers.includes(SYNC_SECRET_FINALIZER)) return 0;
    // It is deleted before anybody has served it. With a status, another client holds it after the manager has let it go.
    if (deletionTimestamp !== undefined && !finalizers.includes(ORIGINAL_FINALIZER)) {
      return object.status.phase === undefined ? Infinity : 0;
    }
    if (this.#hasCcm) return Infinity;
    if (this.#ccmFound) return CCM_MS;
    return this.#managerFound ? 0 : UNKNOWN_MS;
  }
}
