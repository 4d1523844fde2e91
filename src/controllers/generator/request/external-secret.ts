/** Decides what an ExternalSecret needs of the generator. Only objects that need something are kept, in part. */
import { FIELD_MANAGER } from '../../../copy/model/observed.ts';
import type { KubeObject, ObjectMeta } from '../../../kube/api.ts';
import { keptAnnotations, type OptIn, optInOf, RESULT_ANNOTATION } from './settings.ts';
import { CREATED_CONDITION, type EsoCondition, type ExternalSecret, FAILING_REASON } from '../api.ts';
import { isReason, type Requests, requestsOf } from './requests.ts';
import { parseResult, type Result, withoutCreated } from '../run/result.ts';

/**
 * What an ExternalSecret needs:
 *
 * - `values`: ESO cannot read its values.
 * - `setting`: as `values`, and the annotation `create` has a wrong value.
 * - `found`: ESO has read the values, but the last result says that they are missing.
 * - `healing`: its condition `Created` makes the API server refuse every status of ESO.
 */
export type Need = 'values' | 'setting' | 'found' | 'healing';

/** Whether the condition `Created` may be written. `limited`: a served version of the CRD does not allow it. */
export type ConditionMode = 'allowed' | 'limited' | 'unknown';

export interface ExternalSecretRule {
  readonly metadata: Pick<ObjectMeta, 'name' | 'namespace' | 'uid' | 'resourceVersion' | 'creationTimestamp'>;
  /** The annotations that the generator reads. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly optIn: OptIn;
  /** The state of the condition `Ready`. `other`: it is missing, or fails for another reason than missing values. */
  readonly state: 'failing' | 'ready' | 'other';
  /** The requested values. Empty in other states than `failing`. */
  readonly requests: Requests;
  /** The conditions on the server; `undefined`: they are too many to be written back. */
  readonly conditions: readonly EsoCondition[] | undefined;
  /** The condition `Created`, if its reason is one of the original's or of Keyferry's. */
  readonly created: EsoCondition | undefined;
  /** The last result: from the condition `Created`, or from the annotation if there is no condition. */
  readonly result: Result | undefined;
  /** Whether the condition or the annotation says that values are missing. They differ if the write of one failed. */
  readonly saysFailure: boolean;
  /** @see RuleStoreOptions.versionOf */
  readonly version: string;
}

/** Maximum number of conditions beside `Created`. ESO does not write so many. */
const MAX_CONDITIONS = 50;

/**
 * @param all whether every ExternalSecret is served that does not opt out
 * @returns `undefined`: the ExternalSecret needs nothing, and will need nothing until it changes
 */
export function ruleOf(object: KubeObject, all: boolean): ExternalSecretRule | undefined {
  const { metadata, status, spec } = object as ExternalSecret;
  if (metadata.deletionTimestamp !== undefined) return undefined;
  const conditions = status?.conditions ?? [];
  const created = conditions.find(({ type, reason }) => type === CREATED_CONDITION && isReason(reason));
  const optIn = optInOf(metadata.annotations ?? {}, all);
  if (optIn === 'no' && created === undefined) return undefined;
  const annotations = keptAnnotations(metadata.annotations);
  const said = wroteResult(metadata) ? parseResult(annotations[RESULT_ANNOTATION]) : undefined;
  const result = lastResult(said, created);
  const saysFailure = said?.created === false || result?.created === false;
  const ready = conditions.find(({ type }) => type === 'Ready');
  const isFailing = ready?.status === 'False' && ready.reason === FAILING_REASON;
  const state = isFailing ? 'failing' : ready?.status === 'True' ? 'ready' : 'other';
  if (!isFailing && created === undefined && !saysFailure) return undefined;
  const { name, namespace, uid, resourceVersion, creationTimestamp, generation } = metadata;
  // The version ignores the annotation with the result: otherwise each result would cause another run.
  const { [RESULT_ANNOTATION]: _, ...settings } = annotations;
  return {
    metadata: { name, ...(namespace !== undefined && { namespace }), uid, resourceVersion, creationTimestamp },
    annotations,
    optIn,
    state,
    requests: isFailing && optIn === 'yes' ? requestsOf(spec) : { wanted: [], problems: [] },
    conditions: withoutCreated(conditions).length <= MAX_CONDITIONS ? conditions : undefined,
    created,
    result,
    saysFailure,
    version: JSON.stringify([uid, generation, settings, state]),
  };
}

export function needOf(rule: ExternalSecretRule, mode: ConditionMode): Need | undefined {
  const { optIn, state, created, saysFailure } = rule;
  // Healing comes first, because until then ESO cannot report anything.
  if (created !== undefined && mode === 'limited') return 'healing';
  if (optIn === 'no') return undefined;
  if (state === 'failing') return optIn === 'yes' ? 'values' : 'setting';
  return state === 'ready' && saysFailure ? 'found' : undefined;
}

/** Whether Keyferry wrote the result last. Users may copy the annotation with its object, or write one. */
function wroteResult({ managedFields = [] }: ObjectMeta): boolean {
  return managedFields.some(({ manager, fieldsV1 }) => {
    const fields = fieldsV1?.['f:metadata'] as { readonly 'f:annotations'?: object } | undefined;
    return manager === FIELD_MANAGER && Object.hasOwn(fields?.['f:annotations'] ?? {}, `f:${RESULT_ANNOTATION}`);
  });
}

/** @param said the result in the annotation */
function lastResult(said: Result | undefined, created: EsoCondition | undefined): Result | undefined {
  if (created === undefined || !isReason(created.reason)) return said;
  const { status, reason, message = '' } = created;
  return { entries: {}, ...said, created: status === 'True', reason, message };
}
