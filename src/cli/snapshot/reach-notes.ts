/** Which parts of a cluster could not be listed with the permissions of the caller. */
import type { Inventory } from './inventory.ts';

const PLURALS = {
  Namespace: 'namespaces',
  SecretMirror: 'SecretMirrors',
  Secret: 'Secrets',
  ConfigMap: 'ConfigMaps',
} as const;

type Looked = keyof typeof PLURALS;

export function reachNotes(inventory: Pick<Inventory, 'reach'>): string[] {
  const notes: string[] = [];
  const partly: string[] = [];
  for (const [kind, plural] of Object.entries(PLURALS)) {
    const reach = inventory.reach(kind);
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
export function requireReach(inventory: Pick<Inventory, 'reach'>, kinds: readonly Looked[], hint = ''): void {
  for (const kind of kinds) {
    const reach = inventory.reach(kind);
    if (reach.extent === 'refused') throw new Error(`${reach.message}${hint}`);
  }
}
