/**
 * The types of the objects of External Secrets Operator (ESO), with the fields that the generator reads. All fields are
 * optional, because an older CRD may lack them.
 */
import type { KubeObject } from '../../kube/api.ts';
import type { LabelSelector } from '../../runtime/text/label-selector.ts';

/** Name of this controller in rule keys, metrics and reports. */
export const GENERATOR = 'generator';

export const ESO_GROUP = 'external-secrets.io';
/** The versions of ESO's API that Keyferry can read. If the server has both, Keyferry reads the first. */
export const ESO_VERSIONS = ['v1', 'v1beta1'] as const;
export type EsoVersion = (typeof ESO_VERSIONS)[number];

/** The reason of ESO's condition `Ready` while ESO cannot read a value from Vault. */
export const FAILING_REASON = 'SecretSyncedError';
/** The type of the condition that both the original and Keyferry write. */
export const CREATED_CONDITION = 'Created';

/** One entry of `status.conditions`. ESO and other clients may add fields. */
export interface EsoCondition {
  readonly type?: string;
  readonly status?: string;
  readonly reason?: string;
  readonly message?: string;
}

export interface StoreReference {
  readonly name?: string;
  readonly kind?: string;
}

/** One item of `spec.data`. */
export interface ExternalSecretData {
  readonly secretKey?: string;
  readonly remoteRef?: {
    readonly key?: string;
    readonly property?: string;
    readonly version?: string;
    readonly metadataPolicy?: string;
    readonly decodingStrategy?: string;
  };
  readonly sourceRef?: { readonly storeRef?: StoreReference; readonly generatorRef?: unknown };
}

export interface ExternalSecretSpec {
  readonly secretStoreRef?: StoreReference;
  readonly data?: readonly ExternalSecretData[];
  readonly dataFrom?: readonly unknown[];
}

export interface ExternalSecret extends KubeObject {
  readonly spec?: ExternalSecretSpec;
  readonly status?: { readonly conditions?: readonly EsoCondition[] };
}

/** A reference to one key of a Secret. ESO reads `namespace` only in a ClusterSecretStore. */
export interface SecretKeySelector {
  readonly name?: string;
  readonly namespace?: string;
  readonly key?: string;
}

export interface VaultProvider {
  readonly server?: string;
  readonly path?: string;
  readonly version?: string;
  readonly namespace?: string;
  /** CA certificates, as PEM in base64. */
  readonly caBundle?: string;
  readonly caProvider?: {
    readonly type?: string;
    readonly name?: string;
    readonly namespace?: string;
    readonly key?: string;
  };
  readonly tls?: { readonly certSecretRef?: SecretKeySelector; readonly keySecretRef?: SecretKeySelector };
  readonly headers?: Readonly<Record<string, string>>;
  readonly auth?: Readonly<Record<string, unknown>> & {
    readonly namespace?: string;
    readonly tokenSecretRef?: SecretKeySelector;
    readonly appRole?: {
      readonly path?: string;
      readonly roleId?: string;
      readonly roleRef?: SecretKeySelector;
      readonly secretRef?: SecretKeySelector;
    };
    readonly kubernetes?: {
      readonly mountPath?: string;
      readonly role?: string;
      readonly serviceAccountRef?: SecretKeySelector & { readonly audiences?: readonly string[] };
      readonly secretRef?: SecretKeySelector;
    };
  };
}

/** One entry of `spec.conditions` of a ClusterSecretStore. It selects namespaces that can use the store. */
export interface StoreCondition {
  readonly namespaces?: readonly string[];
  readonly namespaceRegexes?: readonly string[];
  readonly namespaceSelector?: LabelSelector;
}

/** A SecretStore or ClusterSecretStore. */
export interface SecretStore extends KubeObject {
  readonly spec?: {
    /** The class of the ESO controllers that serve the store. */
    readonly controller?: string;
    readonly conditions?: readonly StoreCondition[];
    readonly provider?: Readonly<Record<string, unknown>> & { readonly vault?: VaultProvider };
  };
}

/** Advice if the API of ESO is not installed. */
export const ESO_ADVICE = 'install External Secrets Operator, or its CRDs';
