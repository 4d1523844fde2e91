/**
 * The types of the SecretMirror API, `mirrors.kts.studio/v1alpha2`.
 *
 * The schema of the CRD is generated from `scripts/crd/`; a test there compares it with these types. A field is optional if the API
 * server accepts an object without it. Objects that were stored under an older CRD may violate the rules of the schema.
 */
import type { KubeObject } from '../../kube/api.ts';
import type { Condition } from '../common/rules/rule-statuses.ts';
import { crdAdvice } from '../common/crd-diagnosis.ts';
import { MIRROR_OWNER } from '../common/excluded-metadata.ts';

/** First part of the rule keys, and value of the label on copies. */
export const MIRRORS_CONTROLLER = 'mirrors';
export const MIRRORS_GROUP = 'mirrors.kts.studio';
export const MIRRORS_VERSION = 'v1alpha2';
/** The kind, and where its objects are. */
export const SECRET_MIRROR = {
  kind: 'SecretMirror',
  apiVersion: `${MIRRORS_GROUP}/${MIRRORS_VERSION}`,
  groupPath: `/apis/${MIRRORS_GROUP}/${MIRRORS_VERSION}`,
  plural: 'secretmirrors',
} as const;
export const MIRRORS_CRD_NAME = `${SECRET_MIRROR.plural}.${MIRRORS_GROUP}`;
export const MIRRORS_CRD_ADVICE = crdAdvice(MIRRORS_CRD_NAME);

/** On every SecretMirror that may have copies. */
export const SECRET_MIRROR_FINALIZER = 'mirrors.kts.studio/finalizer';

/** The source component of the events on a SecretMirror. */
export const MIRRORS_EVENT_COMPONENT = 'mirrors.kts.studio';

/** Annotations on the copies of a SecretMirror. */
export const MIRROR_ANNOTATIONS = {
  /** The owner's mark: `<namespace>/<name>` of the mirror. */
  ownedBy: MIRROR_OWNER,
  /** Time of the last write. */
  lastSyncAt: 'mirrors.kts.studio/last-sync-at',
  /** resourceVersion of the source; empty for a Vault source. */
  parentVersion: 'mirrors.kts.studio/parent-version',
  /** A `SourceType`. */
  sourceType: 'mirrors.kts.studio/source-type',
  /** Vault sources: the path from the SecretMirror. */
  vaultPath: 'mirrors.kts.studio/vault-path',
  /** Dynamic credentials: their lease. */
  vaultLeaseId: 'mirrors.kts.studio/vault-lease-id',
  /** Dynamic credentials: duration of the lease in seconds, decimal. */
  vaultLeaseDuration: 'mirrors.kts.studio/vault-lease-duration',
} as const;

/**
 * Defaults of absent, empty or zero fields. The schema sets only `sourceType` and `destinationType`; the controller writes the others.
 * `source.name` defaults to the name of the mirror, `secretRef.namespace` to its namespace. For a Vault destination,
 * `deletePolicy` is always `retain`.
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

/** Fields of `spec.destination` without a meaning for a destination in Vault. Other ones were always accepted, or have a meaning. */
export const NAMESPACES_ONLY = [
  'namespaceSelector',
  'excludedNamespaces',
  'name',
  'labels',
  'annotations',
  'copyLabels',
  'copyAnnotations',
] as const;

/** `status.lastSyncTime` before the first sync. */
export const NEVER_SYNCED = '1970-01-01T00:00:00Z';

export type SourceType = 'secret' | 'vault' | 'configmap';
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
  readonly suspend?: boolean;
}

export interface SecretMirrorSource {
  readonly type?: SourceType;
  /** Name of the source, and of copies without `destination.name`. */
  readonly name?: string;
  readonly vault?: VaultBlock;
}

export interface SecretMirrorDestination {
  readonly type?: DestinationType;
  /** RE2 patterns of namespace names. */
  readonly namespaces?: readonly string[];
  readonly namespaceSelector?: LabelSelector;
  /** RE2 patterns of namespace names. They win. */
  readonly excludedNamespaces?: readonly string[];
  /** Name of the copies. */
  readonly name?: string;
  readonly keys?: readonly MirroredKey[];
  readonly vault?: VaultBlock;
  /** Type of the copies. */
  readonly secretType?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** RE2 patterns of whole keys that travel from the source. */
  readonly copyLabels?: readonly string[];
  readonly copyAnnotations?: readonly string[];
}

/** `metav1.LabelSelector` */
export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly LabelRequirement[];
}

export interface LabelRequirement {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  readonly values?: readonly string[];
}

export interface MirroredKey {
  readonly from: string;
  /** Default: `from`. */
  readonly to?: string;
  readonly optional?: boolean;
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
  /** Vault namespace, not a Kubernetes namespace. */
  readonly namespace?: string;
}

/** The first complete method is used, in this order: `approle`, `token`, `kubernetes`. */
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

/** A ServiceAccount in the namespace of the mirror. */
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
  /** The `metadata.generation` of this status. */
  readonly observedGeneration?: number;
  readonly conditions?: readonly Condition[];
  readonly vaultSource?: VaultSourceStatus;
  /** Leases of this mirror: the current one, and replaced ones that are not revoked yet. */
  readonly vaultLeases?: readonly VaultLeaseRecord[];
}

export interface VaultLeaseRecord {
  readonly leaseID: string;
  /** `spec.source.vault` at the time of the lease: the location and login to revoke it. */
  readonly vault: VaultBlock;
  /** For a destination in Vault: version and creation time of the entry with its credentials. */
  readonly destinationVersion?: string;
  /** For a replaced lease: latest end, RFC 3339. */
  readonly expirationTime?: string;
}

/** The lease of the dynamic credentials in the copies. */
export interface VaultSourceStatus {
  readonly leaseID?: string;
  /** Seconds, from the last response of Vault. */
  readonly leaseDuration?: number;
  /** Expiration time of the token that owns the lease, RFC 3339. A restarted operator cannot renew it. */
  readonly tokenExpirationTime?: string;
}
