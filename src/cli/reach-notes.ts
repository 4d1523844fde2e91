/** Which parts of a cluster could not be listed with the permissions of the caller. */
import type { Inventory } from '../controllers/common/snapshot/inventory.ts';

export function reachNotes({ reaches }: Inventory): string[] {
  const notes: string[] = [];
  const partly: string[] = [];
  for (const [kind, reach] of reaches) {
    const plural = kind === 'Namespace' ? 'namespaces' : `${kind}s`;
    if (reach.extent === 'namespace') partly.push(plural);
    else if (reach.extent === 'refused' && kind !== 'Namespace') {
      notes.push(`${plural} are not included: ${reach.message}`);
    }
  }
  if (partly.length > 0) {
    notes.push(`${partly.join(', ')} in other namespaces are not included: no permission to list them`);
  }
  return notes;
}

/** @throws Error if one of these kinds could not be listed at all */
export function requireReach(inventory: Inventory, isRequired: (kind: string) => boolean, hint = ''): void {
  for (const [kind, reach] of inventory.reaches) {
    if (isRequired(kind) && reach.extent === 'refused') throw new Error(`${reach.message}${hint}`);
  }
}
