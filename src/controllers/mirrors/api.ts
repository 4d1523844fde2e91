/**
 * The types of the SecretMirror API, `mirrors.kts.studio/v1alpha2`. `scripts/crd/` generates the schema of the CRD, and
 * a test there compares the schema with these types.
 *
 * A field is optional if the API server accepts an object without it. Objects that are older than the CRD may have any
 * content.
 */
import type { KubeObject } from '../../kube/api.ts';
import type { Condition } from '../../copy/engine/life/condition.ts';
import { crdAdvice } from '../common/custom-api.ts';
import { MIRROR_OWNER } from '../common/excluded-metadata.ts';

/** The controller's name: it begins the rule keys, and is the value of the label `keyferry.dev/copy` on copies. */
export const MIRRORS_CONTROLLER = 'mirrors';
export const MIRRORS_GROUP = 'mirrors.kts.studio';
export const MIRRORS_VERSION = 'v1alpha2';
/** The kind SecretMirror, and its paths on the API server. */
export const SECRET_MIRROR = {
  kind: 'SecretMirror',
  apiVersion: `${MIRRORS_GROUP}/${MIRRORS_VERSION}`,
  groupPath: `/apis/${MIRRORS_GROUP}/${MIRRORS_VERSION}`,
  plural: 'secretmirrors',
} as const;
export const MIRRORS_CRD_NAME = `${SECRET_MIRROR.plural}.${MIRRORS_GROUP}`;
export const MIRRORS_CRD_ADVICE = crdAdvice(MIRRORS_CRD_NAME);

/** Every SecretMirror that may have copies carries this finalizer. */
export const SECRET_MIRROR_FINALIZER = 'mirrors.kts.studio/finalizer';

/** Annotations on the copies of a SecretMirror. */
export const MIRROR_ANNOTATIONS = {
  /** The mark: `<namespace>/<name>` of the mirror that owns the copy. */
  ownedBy: MIRROR_OWNER,
  /** Time of the last write of the copy. */
  lastSyncAt: 'mirrors.kts.studio/last-sync-at',
  /** resourceVersion of the source; empty for a source in Vault. */
  parentVersion: 'mirrors.kts.studio/parent-version',
  /** A `SourceType`. */
  sourceType: 'mirrors.kts.studio/source-type',
  /** For a source in Vault: the path of the entry, as in the spec of the SecretMirror. */
  vaultPath: 'mirrors.kts.studio/vault-path',
  /** For dynamic credentials: the id of their lease. */
  vaultLeaseId: 'mirrors.kts.studio/vault-lease-id',
  /** For dynamic credentials: the duration of their lease in seconds, decimal. */
  vaultLeaseDuration: 'mirrors.kts.studio/vault-lease-duration',
} as const;

/**
 * Defaults for fields that are absent, empty or zero. The schema sets only `sourceType` and `destinationType`; the
 * controller sets the other defaults. `source.name` defaults to the name of the mirror, `secretRef.namespace` to its
 * namespace. A destination in Vault always has `deletePolicy: retain`.
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

/** Fields of `spec.destination` that are refused for a destination in Vault, because they have no meaning there. */
export const NAMESPACES_ONLY = [
  'namespaceSelector',
  'excludedNamespaces',
  'name',
  'secretType',
  'labels',
  'annotations',
  'copyLabels',
  'copyAnnotations',
] as const;

/** The value of `status.lastSyncTime` before the first sync. */
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
  /** Seconds. 0: the default, 180. */
  readonly pollPeriodSeconds?: number;
  readonly suspend?: boolean;
}

export interface SecretMirrorSource {
  readonly type?: SourceType;
  /** Name of the source. Without `destination.name`, the copies have the same name. */
  readonly name?: string;
  readonly vault?: VaultBlock;
}

export interface SecretMirrorDestination {
  readonly type?: DestinationType;
  /** RE2 patterns of namespace names. */
  readonly namespaces?: readonly string[];
  readonly namespaceSelector?: LabelSelector;
  /** RE2 patterns of namespace names that are never selected, not even by `namespaces`. */
  readonly excludedNamespaces?: readonly string[];
  /** Name of the copies. */
  readonly name?: string;
  readonly keys?: readonly MirroredKey[];
  readonly vault?: VaultBlock;
  /** Type of the copies. */
  readonly secretType?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** RE2 patterns for whole label keys: the copies get the labels of the source whose keys match. */
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

/** If there are several methods, the first one is used: `approle` if it names a Secret, `token`, `kubernetes`. */
export interface VaultAuth {
  readonly approle?: VaultAppRoleAuth;
  readonly token?: VaultTokenAuth;
  readonly kubernetes?: VaultKubernetesAuth;
  /** Vault namespace of the login. Default: that of the block. */
  readonly namespace?: string;
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
  /** The `metadata.generation` that this status describes. */
  readonly observedGeneration?: number;
  readonly conditions?: readonly Condition[];
  readonly vaultSource?: VaultSourceStatus;
  /** One record: that of the lease in `vaultSource`. */
  readonly vaultLeases?: readonly VaultLeaseRecord[];
}

export interface VaultLeaseRecord {
  readonly leaseID: string;
  /** `spec.source.vault` when the lease was granted: its address and login are needed to revoke the lease. */
  readonly vault: VaultBlock;
  /** For a destination in Vault: version and creation time of the entry that has the credentials of the lease. */
  readonly destinationVersion?: string;
}

/** The lease of the dynamic credentials in the copies. */
export interface VaultSourceStatus {
  readonly leaseID?: string;
  /** Seconds, as in Vault's last response to a read or renewal. */
  readonly leaseDuration?: number;
  /** When the token expires with which the lease was created, RFC 3339. Keyferry cannot renew it after a restart. */
  readonly tokenExpirationTime?: string;
}
