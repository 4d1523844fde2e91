/** Decides what an ExternalSecret needs from the generator. Only the required parts of those with a need are stored. */
import { isOwnManager } from '../../../copy/model/observed.ts';
import type { KubeObject, ObjectMeta } from '../../../kube/api.ts';
import { keptAnnotations, type OptIn, optInOf, RESULT_ANNOTATION } from './settings.ts';
import { CREATED_CONDITION, type EsoCondition, type ExternalSecret, FAILING_REASON } from '../api.ts';
import { isReason, type Requests, requestsOf } from './requests.ts';
import { parseResult, type Result, withoutCreated } from '../run/result.ts';

/**
 * The need of an ExternalSecret:
 *
 * - `values`: ESO cannot read the values, so the generator makes them.
 * - `setting`: ESO cannot read the values, but the annotation `create` is wrong. The generator reports this.
 * - `found`: ESO has read the values, but the last result says that values are missing. The generator corrects it.
 * - `healing`: the condition `Created` makes the API server refuse each status from ESO. The generator removes it.
 */
export type Need = 'values' | 'setting' | 'found' | 'healing';

/** Whether the CRD allows the condition `Created`. `limited`: a served version of the CRD does not allow it. */
export type ConditionMode = 'allowed' | 'limited' | 'unknown';

export interface ExternalSecretRule {
  readonly metadata: Pick<
    ObjectMeta,
    'name' | 'namespace' | 'uid' | 'resourceVersion' | 'creationTimestamp' | 'generation'
  >;
  /** The annotations that the generator reads. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly optIn: OptIn;
  /** The state of ESO's condition `Ready`. `other`: it is missing, or fails for another reason than missing values. */
  readonly state: 'failing' | 'ready' | 'other';
  /** The requested values. Empty if `state` is not `failing`. */
  readonly requests: Requests;
  /** All conditions on the server; `undefined`: they are too many to write them back (`MAX_CONDITIONS`). */
  readonly conditions: readonly EsoCondition[] | undefined;
  /** The condition `Created`, if its reason shows that the original or Keyferry wrote it. */
  readonly created: EsoCondition | undefined;
  /** The last result, from the condition `Created`. Without this condition: from the annotation. */
  readonly result: Result | undefined;
  /**
   * Whether the condition or the annotation says that values are missing. They differ if one of their writes failed.
   */
  readonly saysFailure: boolean;
  /** @see RuleStoreOptions.versionOf */
  readonly version: string;
}

/** Maximum number of conditions besides `Created`. ESO writes far fewer. */
const MAX_CONDITIONS = 50;

/**
 * @param all whether to serve every ExternalSecret that does not opt out (`--all`)
 * @returns `undefined`: the ExternalSecret needs nothing until it changes
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
  // The version ignores the result. Otherwise the write of each result would cause another run.
  const { [RESULT_ANNOTATION]: _, ...settings } = annotations;
  return {
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      uid,
      resourceVersion,
      creationTimestamp,
      ...(generation !== undefined && { generation }),
    },
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
  // `healing` comes first, because before it ESO cannot write any status.
  if (created !== undefined && mode === 'limited') return 'healing';
  if (optIn === 'no') return undefined;
  if (state === 'failing') return optIn === 'yes' ? 'values' : 'setting';
  return state === 'ready' && saysFailure ? 'found' : undefined;
}

/** Whether Keyferry wrote the annotation with the result. A user may have written it, or copied the whole object. */
function wroteResult({ managedFields = [] }: ObjectMeta): boolean {
  return managedFields.some(({ manager, fieldsV1 }) => {
    const fields = fieldsV1?.['f:metadata'] as { readonly 'f:annotations'?: object } | undefined;
    return isOwnManager(manager) && Object.hasOwn(fields?.['f:annotations'] ?? {}, `f:${RESULT_ANNOTATION}`);
  });
}

/** @param said the result in the annotation; `undefined`: none. @param created the condition `Created` */
function lastResult(said: Result | undefined, created: EsoCondition | undefined): Result | undefined {
  if (created === undefined || !isReason(created.reason)) return said;
  const { status, reason, message = '' } = created;
  return { entries: {}, ...said, created: status === 'True', reason, message };
}
