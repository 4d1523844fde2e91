/**
 * For `plan`: checks the types and allowed values of fields, as the schema of the CRD does. `effectiveSpec` does not
 * check them. Pure.
 */
import { isRecord, notString } from '../../kube/json.ts';
import { clipped } from '../../runtime/text/texts.ts';
import type { DeletePolicy, DestinationType, SecretMirror, SourceType } from './api.ts';

const MAX_SHOWN = 100;

/** The values that the CRD allows. */
const SOURCE_TYPES: readonly SourceType[] = ['secret', 'vault', 'configmap'];
const DESTINATION_TYPES: readonly DestinationType[] = ['namespaces', 'vault'];
const DELETE_POLICIES: readonly DeletePolicy[] = ['delete', 'retain'];

/** The first mistake in a spec, as text that begins with the path of the field; `undefined`: there is none. */
export function specProblem(spec: Readonly<Record<string, unknown>>): string | undefined {
  for (const field of ['source', 'destination']) {
    const value = spec[field] ?? {};
    if (!isRecord(value) || Array.isArray(value)) return `spec.${field} is not an object`;
    const notText = ['name', 'type', 'secretType'].find((name) => typeof (value[name] ?? '') !== 'string');
    if (notText !== undefined) return `spec.${field}.${notText} ${notString(value[notText])}`;
  }
  const { source, destination, deletePolicy } = spec as NonNullable<SecretMirror['spec']>;
  const { namespaces, excludedNamespaces, namespaceSelector } = destination ?? {};
  return (
    choiceProblem('spec.source.type', source?.type, SOURCE_TYPES) ??
    choiceProblem('spec.destination.type', destination?.type, DESTINATION_TYPES) ??
    choiceProblem('spec.deletePolicy', deletePolicy, DELETE_POLICIES) ??
    listProblem('spec.destination.namespaces', namespaces) ??
    listProblem('spec.destination.excludedNamespaces', excludedNamespaces) ??
    (isSelector(namespaceSelector ?? {}) ? undefined : 'spec.destination.namespaceSelector is not a label selector')
  );
}

function choiceProblem(field: string, value: unknown, allowed: readonly unknown[]): string | undefined {
  if (value === undefined || value === null || allowed.includes(value)) return undefined;
  return `${field}: ${clipped(JSON.stringify(value), MAX_SHOWN)} must be one of ${allowed.join(', ')}`;
}

function listProblem(field: string, list: unknown): string | undefined {
  if (list === undefined) return undefined;
  if (!Array.isArray(list)) return `${field} is not a list of strings`;
  const index = list.findIndex((item) => typeof item !== 'string');
  return index === -1 ? undefined : `${field}[${index}] ${notString(list[index])}`;
}

function isTexts(list: unknown): boolean {
  return listProblem('', list) === undefined;
}

function isSelector(selector: unknown): boolean {
  if (!isRecord(selector)) return false;
  const { matchLabels = {}, matchExpressions = [] } = selector;
  if (!isRecord(matchLabels) || !isTexts(Object.values(matchLabels)) || !Array.isArray(matchExpressions)) return false;
  return matchExpressions.every((one: unknown) => {
    return (
      isRecord(one) && typeof one['key'] === 'string' && typeof one['operator'] === 'string' && isTexts(one['values'])
    );
  });
}
