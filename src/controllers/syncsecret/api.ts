/**
 * The SyncSecret API, `kubelb.k8c.io/v1alpha1`, and names from KubeLB and its documentation. Its fields are in
 * `scripts/crd/`. All are at the root, so each change of a field makes a new generation.
 */
import type { Kind } from '../../copy/model/kind.ts';
import type { KubeObject } from '../../kube/api.ts';
import { crdAdvice } from '../common/custom-api.ts';
import type { SyncSecretFields } from '../../../scripts/crd/types.ts';

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

/** Every SyncSecret that may have a copy or a Secret carries this finalizer, in both clusters. */
export const SYNC_SECRET_FINALIZER = 'kubelb.k8c.io/lb-finalizer';
/** The finalizer that KubeLB's program writes. Keyferry removes it. KubeLB's documentation has another name. */
export const ORIGINAL_FINALIZER = 'kubelb.k8c.io/cleanup';
/** The finalizers that Keyferry removes when a SyncSecret may be deleted. */
export const OWN_FINALIZERS: ReadonlySet<string> = new Set([SYNC_SECRET_FINALIZER, ORIGINAL_FINALIZER]);

/** Labels on a copy in the management cluster: they name the tenant's SyncSecret. */
export const ORIGIN_LABELS = {
  name: 'kubelb.k8c.io/origin-name',
  /** The key that KubeLB's program writes. */
  namespace: 'kubelb.k8c.io/origin-ns',
  /** The key that KubeLB's documentation names. */
  documentedNamespace: 'kubelb.k8c.io/origin-namespace',
} as const;

/** By this label and value a user offers a Secret to the secret synchronizer. */
export const MANAGED_BY_LABEL = 'kubelb.k8c.io/managed-by';
export const MANAGED_BY_KUBELB = 'kubelb';

/** The type of the only condition in the status. */
export const SYNCED_CONDITION = 'Synced';

export type SyncSecretPhase = 'Pending' | 'Synced' | 'Failed' | 'Terminating';

export type SyncSecret = KubeObject & SyncSecretFields;

/** Its `phase` is a `SyncSecretPhase`, but the schema allows any text, and several conditions of one type. */
export type SyncSecretStatus = NonNullable<SyncSecretFields['status']>;
