/** Stores SecretMirrors without unused fields, and finds in their managed fields which fields Keyferry owns. */
import type { ManagedFieldsEntry } from '../../../kube/api.ts';
import { isOwnManager } from '../../../copy/model/observed.ts';
import {
  keptFinalizers,
  type RuleObject,
  RuleStore,
  type RuleStoreOptions,
  ruleVersion,
} from '../../../copy/engine/life/rule-store.ts';
import { MIRRORS_CONTROLLER, SECRET_MIRROR_FINALIZER, type SecretMirror, type SecretMirrorSpec } from '../api.ts';

/** Maximum length of the stored patterns of a mirror, characters. Memory matters: there may be thousands of mirrors. */
export const MAX_LIST = 64 * 1024;

export interface StoredMirror extends SecretMirror, RuleObject {
  /** No other mirror shares this object. It stays the same object while only the status changes. */
  readonly spec: SecretMirrorSpec;
  /** Length of patterns and selector, characters, if above `MAX_LIST`: then none are stored. Otherwise `undefined`. */
  readonly tooLongPatterns?: number | undefined;
}

const OWN_FINALIZERS: ReadonlySet<string> = new Set([SECRET_MIRROR_FINALIZER]);

export type MirrorStore = RuleStore<StoredMirror>;

export function createMirrorStore(onChange?: RuleStoreOptions<StoredMirror>['onChange']): MirrorStore {
  return new RuleStore({
    controller: MIRRORS_CONTROLLER,
    toRule: withoutUnusedFields,
    versionOf: ruleVersion,
    onChange,
    // Only the mirror says that its copies are retained, or which leases are to be revoked.
    outlives: ({ spec }) => spec.deletePolicy === 'retain' || spec.source?.type === 'vault',
  });
}

/**
 * Removes unused fields to save memory: an annotation may contain a whole earlier version of the object. Managed fields
 * are stored only while Keyferry owns fields of the spec. A stored mirror with new metadata comes here, too.
 */
function withoutUnusedFields(mirror: SecretMirror & Partial<StoredMirror>): StoredMirror {
  const { managedFields, annotations: _, labels: __, finalizers, ...metadata } = mirror.metadata;
  const held = finalizers === undefined ? {} : { finalizers: keptFinalizers(finalizers, OWN_FINALIZERS) };
  const kept = managedFields !== undefined && withoutOurSpec(managedFields) !== undefined ? { managedFields } : {};
  const { spec } = mirror;
  const { namespaces, excludedNamespaces, namespaceSelector, ...destination } = spec?.destination ?? {};
  const selectorLength = namespaceSelector === undefined ? 0 : JSON.stringify(namespaceSelector).length;
  const length = lengthOf(namespaces) + lengthOf(excludedNamespaces) + selectorLength;
  const isTooLong = length > MAX_LIST;
  return {
    ...mirror,
    metadata: { ...metadata, ...held, ...kept },
    spec: isTooLong ? { ...spec, destination: { ...destination, namespaces: [] } } : { ...spec },
    tooLongPatterns: isTooLong ? length : mirror.tooLongPatterns,
  };
}

function lengthOf(list: readonly string[] | undefined): number {
  return list?.reduce((sum, text) => sum + text.length, 0) ?? 0;
}

const SPEC = 'f:spec';

/**
 * The managed fields of a mirror without Keyferry's ownership of spec fields. In server-side apply the writer of a
 * field owns the field, and a user who later applies another value gets a conflict. So Keyferry gives up the ownership.
 * @returns `undefined` if Keyferry owns no spec field, or if the list would be empty, which the API server ignores
 */
export function withoutOurSpec(
  managedFields: readonly ManagedFieldsEntry[] | undefined,
): readonly ManagedFieldsEntry[] | undefined {
  if (managedFields?.some(isOurSpec) !== true) return undefined;
  const rest = managedFields.flatMap((entry) => {
    if (!isOurSpec(entry)) return [entry];
    const { [SPEC]: _, ...fieldsV1 } = entry.fieldsV1 ?? {};
    return Object.keys(fieldsV1).length === 0 ? [] : [{ ...entry, fieldsV1 }];
  });
  return rest.length === 0 ? undefined : rest;
}

function isOurSpec({ manager, subresource = '', fieldsV1 }: ManagedFieldsEntry): boolean {
  return isOwnManager(manager) && subresource === '' && fieldsV1?.[SPEC] !== undefined;
}
