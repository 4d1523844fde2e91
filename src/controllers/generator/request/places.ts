/** Finds the entries of an ExternalSecret: the server, login and path of each value. */
import { getOrCreate } from '../../../runtime/maps.ts';
import type { WantedEntry } from '../run/entry.ts';
import { EntryPathError, entryPathOf, StoreError, type VaultStore } from '../store/store-spec.ts';
import { type Problem, type StoreRef, userProblem, type WantedValue } from './requests.ts';

/** A store, and all entries that are wanted there, by path. */
export interface Place {
  readonly store: VaultStore;
  readonly entries: ReadonlyMap<string, WantedEntry>;
}

export interface Places {
  readonly places: readonly Place[];
  readonly problems: readonly Problem[];
}

/** @param storeOf throws StoreError */
export function placesOf(wanted: readonly WantedValue[], storeOf: (ref: StoreRef) => VaultStore): Places {
  type Entries = Map<string, WantedEntry & { values: WantedValue[] }>;
  const places = new Map<string, Place & { readonly entries: Entries }>();
  const problems: Problem[] = [];
  for (const value of wanted) {
    const { field, key, store: ref } = value;
    try {
      const store = storeOf(ref);
      const path = entryPathOf(key, store);
      const { entries } = getOrCreate(places, store.name, () => ({ store, entries: new Map() }));
      getOrCreate(entries, path, () => ({ path, version: store.version, values: [] })).values.push(value);
    } catch (error) {
      if (error instanceof EntryPathError) {
        problems.push(userProblem('ErrorCreating', `${field}.remoteRef.key`, error.message));
      } else if (error instanceof StoreError) {
        const { reason, message, fault } = error;
        problems.push({ reason, field: `${ref.kind} ${ref.name}`, message, fault });
      } else throw error;
    }
  }
  return { places: [...places.values()], problems: once(problems) };
}

/** A store that cannot be used is one problem, and not one for each of its values. */
function once(problems: readonly Problem[]): Problem[] {
  return [...new Map(problems.map((problem) => [`${problem.field} ${problem.message}`, problem])).values()];
}
