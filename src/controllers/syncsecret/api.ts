/**
 * The types of the SyncSecret API, `kubelb.k8c.io/v1alpha1`, and the names that KubeLB and its documentation use.
 *
 * The schema of the CRD is generated from `scripts/crd/`; a test there compares it with these types. All fields are at the root, so each
 * change of them is a new generation.
 */
import type { Kind } from '../../copy/model/kind.ts';
import type { KubeObject } from '../../kube/api.ts';
import { crdAdvice } from '../common/crd-diagnosis.ts';
import type { Condition } from '../common/rules/rule-statuses.ts';

export const SYNC_SECRET_GROUP = 'kubelb.k8c.io';
export const SYNC_SECRET_VERSION = 'v1alpha1';

/** SyncSecrets as a kind of content: a custom resource that describes a Secret. */
export const SYNC_SECRET: Kind = {
  kind: 'SyncSecret',
  apiVersion: `${SYNC_SECRET_GROUP}/${SYNC_SECRET_VERSION}`,
  groupPath: `/apis/${SYNC_SECRET_GROUP}/${SYNC_SECRET_VERSION}`,
  plural: 'syncsecrets',
  fields: [{ name: 'data', encoding: 'base64' }],
  overlay: 'stringData',
  typed: true,
  defaultType: 'Opaque',
  isCustom: true,
  minimal: () => ({ data: {} }),
};
export const SYNC_SECRET_CRD_ADVICE = crdAdvice(`${SYNC_SECRET.plural}.${SYNC_SECRET_GROUP}`);

/** On every SyncSecret that may have a copy or a Secret, in both clusters. */
export const SYNC_SECRET_FINALIZER = 'kubelb.k8c.io/lb-finalizer';
/** The finalizer of KubeLB's program, which Keyferry removes. It differs from the one in KubeLB's documentation. */
export const ORIGINAL_FINALIZER = 'kubelb.k8c.io/cleanup';
/** Both: Keyferry removes either when a SyncSecret may go. */
export const OWN_FINALIZERS: ReadonlySet<string> = new Set([SYNC_SECRET_FINALIZER, ORIGINAL_FINALIZER]);

/** Labels on the copies in the management cluster: where the tenant's SyncSecret is. */
export const ORIGIN_LABELS = {
  name: 'kubelb.k8c.io/origin-name',
  /** As KubeLB's program writes it. */
  namespace: 'kubelb.k8c.io/origin-ns',
  /** As KubeLB's documentation has it. */
  documentedNamespace: 'kubelb.k8c.io/origin-namespace',
} as const;

/** The label with which a user offers a Secret to the secret synchronizer, and its value. */
export const MANAGED_BY_LABEL = 'kubelb.k8c.io/managed-by';
export const MANAGED_BY_KUBELB = 'kubelb';

/** The type of the condition in the status. */
export const SYNCED_CONDITION = 'Synced';

export type SyncSecretPhase = 'Pending' | 'Synced' | 'Failed' | 'Terminating';

export interface SyncSecret extends KubeObject, SyncSecretFields {
  readonly status?: SyncSecretStatus;
}

/** What a user writes: as in a Secret. */
export interface SyncSecretFields {
  /** Values in base64. The API server refuses an empty text here, which a Secret may have. */
  readonly data?: Readonly<Record<string, string>>;
  /** Values as text. They take precedence over `data`. */
  readonly stringData?: Readonly<Record<string, string>>;
  readonly type?: string;
  readonly immutable?: boolean;
}

export interface SyncSecretStatus {
  /** The `metadata.generation` of this status. */
  readonly observedGeneration?: number;
  /** A `SyncSecretPhase`; the schema allows any text. */
  readonly phase?: string;
  /** The schema allows several of one type. */
  readonly conditions?: readonly Condition[];
}
