/** Which parts of a cluster could not be listed with the permissions of the caller. */
import type { Inventory } from '../../controllers/common/snapshot/inventory.ts';
import { SECRET } from '../../copy/model/kind.ts';

export function reachNotes({ reaches }: Inventory): string[] {
  const notes: string[] = [];
  const partly: string[] = [];
  for (const [kind, reach] of reaches) {
    const plural = kind === 'Namespace' ? 'namespaces' : `${kind}s`;
    if (reach.extent === 'namespace') partly.push(plural);
    else if (reach.extent === 'refused' && kind !== 'Namespace') {
      const lost = kind === SECRET.kind ? ', so neither copies nor problems of single copies are shown' : '';
      notes.push(`${plural} are not included${lost}: ${reach.message}`);
    }
  }
  if (partly.length > 0) {
    notes.push(`${partly.join(', ')} in other namespaces are not included: no permission to list them`);
  }
  return notes;
}

/**
 * Without any Secret, rules of their own kinds are known by their own status.
 * @param kinds of rules
 * @throws Error if neither Secrets nor any of these kinds could be listed
 */
export function requireSomeReach(inventory: Inventory, kinds: readonly string[], hint: string): void {
  const isKnown = (kind: string): boolean => {
    const extent = inventory.reaches.get(kind)?.extent;
    return extent === 'cluster' || extent === 'namespace';
  };
  if (!kinds.some(isKnown)) requireReach(inventory, (kind) => kind === SECRET.kind, hint);
}

/** @throws Error if one of these kinds could not be listed at all */
export function requireReach(inventory: Inventory, isRequired: (kind: string) => boolean, hint = ''): void {
  for (const [kind, reach] of inventory.reaches) {
    if (isRequired(kind) && reach.extent === 'refused') throw new Error(`${reach.message}${hint}`);
  }
}
