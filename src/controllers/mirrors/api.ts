/**
 * The SecretMirror API, `mirrors.kts.studio/v1alpha2`. Its fields are in `scripts/crd/`, from which come the schema of the
 * CRD and the types. Objects that are older than the CRD may have any content.
 */
import type { KubeObject } from '../../kube/api.ts';
import type { MirrorSpec, MirrorStatusFields } from '../../../scripts/crd/types.ts';
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

export type SecretMirrorSpec = MirrorSpec;
export type SecretMirrorDestination = NonNullable<MirrorSpec['destination']>;
type SecretMirrorSource = NonNullable<MirrorSpec['source']>;

export type SourceType = NonNullable<SecretMirrorSource['type']>;
export type DestinationType = NonNullable<SecretMirrorDestination['type']>;
export type DeletePolicy = NonNullable<MirrorSpec['deletePolicy']>;
export type MirrorStatus = NonNullable<MirrorStatusFields['mirrorStatus']>;
export type LabelSelector = NonNullable<SecretMirrorDestination['namespaceSelector']>;
export type VaultBlock = NonNullable<SecretMirrorSource['vault']>;
/** A Secret with credentials for a login. */
export type SecretReference = NonNullable<NonNullable<NonNullable<VaultBlock['auth']>['token']>['secretRef']>;

export interface SecretMirror extends KubeObject {
  readonly spec?: SecretMirrorSpec;
  readonly status?: SecretMirrorStatus;
}

export interface SecretMirrorStatus extends Omit<MirrorStatusFields, 'vaultLeases'> {
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
export type VaultSourceStatus = NonNullable<MirrorStatusFields['vaultSource']>;
