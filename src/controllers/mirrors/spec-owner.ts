/**
 * Defaults belong to nobody. Whoever writes a field owns it in the eyes of server-side apply, and an author who later applies
 * another value for it gets a conflict with us. So what we wrote into a spec is given up right after it was written.
 */
import type { ManagedFieldsEntry } from '../../kube/api.ts';
import { FIELD_MANAGER } from '../../copy/model/observed.ts';

const SPEC = 'f:spec';

/**
 * The managed fields of a mirror without our part in its spec.
 * @returns `undefined` if we have none; also if nothing at all would be left, which the server does not take
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
