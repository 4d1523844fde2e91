/**
 * Whether the condition `Created` may be written. Where a version of the CRD has an enum of condition types (ESO 0.20.2 and later), the API
 * server refuses it, or accepts it through another version, and then refuses every status that ESO writes. Pure.
 */
import type { KubeObject } from '../../../kube/api.ts';
import { ESO_GROUP } from '../api.ts';
import type { ConditionMode } from './external-secret.ts';

export const CRD_COLLECTION = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
export const EXTERNAL_SECRET_CRD = `externalsecrets.${ESO_GROUP}`;

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
}

interface CustomResourceDefinition extends KubeObject {
  readonly spec?: {
    readonly versions?: readonly {
      readonly served?: boolean;
      readonly schema?: { readonly openAPIV3Schema?: Schema };
    }[];
  };
}

/** @param crd that of ExternalSecrets */
export function conditionModeOf(crd: KubeObject): ConditionMode {
  const { spec } = crd as CustomResourceDefinition;
  const served = spec?.versions?.filter((version) => version.served === true) ?? [];
  const isLimited = served.some(({ schema }) => {
    const conditions = schema?.openAPIV3Schema?.properties?.['status']?.properties?.['conditions'];
    return conditions?.items?.properties?.['type']?.enum !== undefined;
  });
  return isLimited ? 'limited' : 'allowed';
}
