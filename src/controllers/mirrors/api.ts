/**
 * The SecretMirror API as this program reads and writes it: `mirrors.kts.studio/v1alpha2`.
 *
 * The CRD's schema is generated from `scripts/crd/`, whose test holds these types and that schema together. Every field
 * is optional here where the API server admits an object without it; objects that were stored under an older, permissive
 * CRD may break the schema's rules, so nothing in here promises that they hold.
 */
import type { KubeObject } from '../../kube/api.ts';

/** First part of the rule keys and value of the copies' label. */
export const MIRRORS_SYSTEM = 'mirrors';
export const MIRRORS_GROUP = 'mirrors.kts.studio';
export const MIRRORS_VERSION = 'v1alpha2';
export const MIRRORS_API_VERSION = `${MIRRORS_GROUP}/${MIRRORS_VERSION}`;
/** Path of the API, to see whether it is installed. */
export const MIRRORS_API_PATH = `/apis/${MIRRORS_API_VERSION}`;
export const SECRET_MIRROR_KIND = 'SecretMirror';
export const SECRET_MIRROR_PLURAL = 'secretmirrors';

/** On every SecretMirror that has, or may have, copies. */
export const SECRET_MIRROR_FINALIZER = 'mirrors.kts.studio/finalizer';

/** The source component of the events on a SecretMirror. */
export const MIRRORS_EVENT_COMPONENT = 'mirrors.kts.studio';

/** Annotations on the copies of a SecretMirror. */
export const MIRROR_ANNOTATIONS = {
  /** Who owns the copy: `<mirror's namespace>/<mirror's name>`. */
  ownedBy: 'mirrors.kts.studio/owned-by',
  /** When the copy was last written. */
  lastSyncAt: 'mirrors.kts.studio/last-sync-at',
  /** The source's resourceVersion; empty for a Vault source. */
  parentVersion: 'mirrors.kts.studio/parent-version',
  /** A `SourceType`. */
  sourceType: 'mirrors.kts.studio/source-type',
  /** Vault sources: the path as it is written in the SecretMirror. */
  vaultPath: 'mirrors.kts.studio/vault-path',
  /** Dynamic credentials: the lease that they live by. */
  vaultLeaseId: 'mirrors.kts.studio/vault-lease-id',
  /** Dynamic credentials: the lease's duration in seconds, decimal. */
  vaultLeaseDuration: 'mirrors.kts.studio/vault-lease-duration',
} as const;

/**
 * What an absent (or empty, or zero) field means. The schema itself sets only `sourceType` and `destinationType`; the
 * controller persists the others. `source.name` falls back to the mirror's own name, a `secretRef.namespace` to its namespace,
 * and `deletePolicy` is `retain` whenever the destination is Vault.
 */
export const MIRROR_DEFAULTS = {
  sourceType: 'secret',
  destinationType: 'namespaces',
  deletePolicy: 'delete',
  pollPeriodSeconds: 180,
  encoding: 'plain',
  appRolePath: 'approle',
  roleIDKey: 'role-id',
  secretIDKey: 'secret-id',
  tokenKey: 'token',
  kubernetesMountPath: 'kubernetes',
} as const;

/** `status.lastSyncTime` of a mirror that has never been in sync. */
export const NEVER_SYNCED = '1970-01-01T00:00:00Z';

/** Types that no Secret is ever given from a user's `destination.secretType`: they are credentials of the cluster itself. */
export const FORBIDDEN_SECRET_TYPES = ['kubernetes.io/service-account-token', 'bootstrap.kubernetes.io/token'] as const;

export type SourceType = 'secret' | 'vault';
export type DestinationType = 'namespaces' | 'vault';
export type DeletePolicy = 'delete' | 'retain';
export type MirrorStatus = 'Pending' | 'Active' | 'Error';
export type VaultEncoding = 'plain' | 'base64';

export interface SecretMirror extends KubeObject {
  readonly spec?: SecretMirrorSpec;
  readonly status?: SecretMirrorStatus;
}

export interface SecretMirrorSpec {
  readonly source?: SecretMirrorSource;
  readonly destination?: SecretMirrorDestination;
  readonly deletePolicy?: DeletePolicy;
  /** Seconds; 0 means the default. */
  readonly pollPeriodSeconds?: number;
}

export interface SecretMirrorSource {
  readonly type?: SourceType;
  /** Name of the source Secret, and of every copy whatever the source. */
  readonly name?: string;
  readonly vault?: VaultBlock;
}

export interface SecretMirrorDestination {
  readonly type?: DestinationType;
  /** RE2 patterns of namespace names. */
  readonly namespaces?: readonly string[];
  readonly vault?: VaultBlock;
  /** Type of the copies of a Vault source. */
  readonly secretType?: string;
}

export interface VaultBlock {
  /** `http://` or `https://` URL of the Vault server. */
  readonly addr?: string;
  readonly path?: string;
  readonly auth?: VaultAuth;
  readonly encoding?: VaultEncoding;
  /** PEM certificates. */
  readonly caBundle?: string;
  readonly tlsServerName?: string;
  /** The Vault namespace, not a Kubernetes one. */
  readonly namespace?: string;
}

/** The first that is complete counts, in this order: `approle`, `token`, `kubernetes`. */
export interface VaultAuth {
  readonly approle?: VaultAppRoleAuth;
  readonly token?: VaultTokenAuth;
  readonly kubernetes?: VaultKubernetesAuth;
}

export interface VaultAppRoleAuth {
  readonly secretRef?: SecretReference;
  readonly appRolePath?: string;
  readonly roleIDKey?: string;
  readonly secretIDKey?: string;
}

export interface VaultTokenAuth {
  readonly secretRef?: SecretReference;
  readonly tokenKey?: string;
}

export interface VaultKubernetesAuth {
  readonly role: string;
  readonly mountPath?: string;
  readonly serviceAccountRef: ServiceAccountReference;
}

/** A ServiceAccount in the mirror's own namespace. */
export interface ServiceAccountReference {
  readonly name: string;
  readonly audiences?: readonly string[];
}

export interface SecretReference {
  readonly name?: string;
  readonly namespace?: string;
}

export interface SecretMirrorStatus {
  readonly mirrorStatus?: MirrorStatus;
  /** RFC 3339. */
  readonly lastSyncTime?: string;
  /** The `metadata.generation` that this status speaks of. */
  readonly observedGeneration?: number;
  readonly conditions?: readonly MirrorCondition[];
  readonly vaultSource?: VaultSourceStatus;
  /** Leases that this mirror answers for: the present one, and replaced ones that are still to be revoked. */
  readonly vaultLeases?: readonly VaultLeaseRecord[];
}

/** An array entry, which a merge patch replaces as a whole. */
export interface VaultLeaseRecord {
  readonly leaseID: string;
  /** `spec.source.vault` as it was when the lease was granted: where it is, and with which login it can be revoked. */
  readonly vault: VaultBlock;
  /** Of a destination in Vault: the version of the entry that holds its credentials, and when that was made. */
  readonly destinationVersion?: string;
  /** Of one that was replaced: RFC 3339, when it is over at the latest. */
  readonly expirationTime?: string;
}

/** The lease that the copies' dynamic credentials live by. */
export interface VaultSourceStatus {
  readonly leaseID?: string;
  /** Seconds, as Vault last said. */
  readonly leaseDuration?: number;
  /** When the token that the lease hangs on ends if nobody renews it, RFC 3339: a restarted operator cannot renew it. */
  readonly tokenExpirationTime?: string;
}

/** `metav1.Condition`. */
export interface MirrorCondition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly observedGeneration?: number;
  /** RFC 3339. */
  readonly lastTransitionTime: string;
  readonly reason: string;
  readonly message: string;
}
