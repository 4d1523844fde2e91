/**
 * Gives up the ownership of defaults. In server-side apply the writer of a field owns it, and a user who later applies another value
 * gets a conflict. So Keyferry removes its ownership of spec fields right after it has written them.
 */
import type { ManagedFieldsEntry } from '../../../kube/api.ts';
import { FIELD_MANAGER } from '../../../copy/model/observed.ts';

const SPEC = 'f:spec';

/**
 * The managed fields of a mirror without Keyferry's fields in its spec.
 * @returns `undefined` if there are none; also if the result would be empty, because the API server ignores an empty list
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
  return manager === FIELD_MANAGER && subresource === '' && fieldsV1?.[SPEC] !== undefined;
}
