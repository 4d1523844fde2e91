/** Finds the entries of an ExternalSecret: the server, login and path of each value. */
import type { VaultLogin } from '../../../copy/vault/access/access.ts';
import type { VaultServerOptions } from '../../../vault/client/server.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import type { WantedEntry } from '../run/entry.ts';
import type { Problem, StoreRef, WantedValue } from './requests.ts';
import {
  type CaReference,
  EntryPathError,
  entryPathOf,
  StoreError,
  type StoreSpec,
  type StoreUser,
  vaultStoreOf,
} from '../store/store-spec.ts';

/** A server and a login, and all entries that are wanted there. */
export interface StoreEntries {
  /** `SecretStore/vault-backend`, for names. */
  readonly store: string;
  readonly login: VaultLogin;
  readonly ca: CaReference | undefined;
  /** By path. */
  readonly entries: ReadonlyMap<string, WantedEntry>;
}

export interface Places {
  readonly places: readonly StoreEntries[];
  readonly problems: readonly Problem[];
}

/** How the stores are known. */
export type StoreSource =
  /** @returns `undefined` if there is none */
  | { readonly from: 'stores'; readonly get: (ref: StoreRef) => StoreSpec | undefined }
  /** The server of the process serves all. */
  | { readonly from: 'environment'; readonly server: VaultServerOptions | undefined };

/** @param user the namespace of the ExternalSecret */
export function placesOf(wanted: readonly WantedValue[], source: StoreSource, user: StoreUser): Places {
  const places = new Map<
    string,
    StoreEntries & { readonly entries: Map<string, WantedEntry & { values: WantedValue[] }> }
  >();
  const problems: Problem[] = [];
  for (const value of wanted) {
    const { field, key, store } = value;
    try {
      const { place, mount, version } = placeOf(store, source, user);
      // Without a store the key is taken as the original gives it to `vault kv put`: as it is, with the mount.
      const path = entryPathOf(key, { mount, version: version ?? 'v1' });
      const { entries } = getOrCreate(places, place.store, () => ({ ...place, entries: new Map() }));
      getOrCreate(entries, path, () => ({ path, version, values: [] })).values.push(value);
    } catch (error) {
      if (error instanceof EntryPathError) {
        const { message } = error;
        problems.push({ reason: 'ErrorCreating', field: `${field}.remoteRef.key`, message, fault: 'user' });
      } else if (error instanceof StoreError) {
        const { reason, message, fault } = error;
        problems.push({ reason, field: `${store.kind} ${store.name}`, message, fault });
      } else throw error;
    }
  }
  return { places: [...places.values()], problems: once(problems) };
}

interface Located {
  readonly place: Omit<StoreEntries, 'entries'>;
  readonly mount: string | undefined;
  readonly version: 'v1' | 'v2' | undefined;
}

/** @throws StoreError */
function placeOf(ref: StoreRef, source: StoreSource, user: StoreUser): Located {
  if (source.from === 'environment') {
    if (source.server === undefined) {
      throw new StoreError('InvalidStore', 'cannot be read, and $VAULT_ADDR is not set', 'operator');
    }
    const login: VaultLogin = { server: source.server, auth: { method: 'environment' } };
    return { place: { store: 'environment', login, ca: undefined }, mount: undefined, version: undefined };
  }
  const spec = source.get(ref);
  if (spec === undefined) throw new StoreError('StoreNotFound', 'does not exist');
  const { server, auth, ca, mount, version } = vaultStoreOf(ref.kind, spec, user);
  return { place: { store: `${ref.kind}/${ref.name}`, login: { server, auth }, ca }, mount, version };
}

/** A store that cannot be used is one problem, and not one for each of its values. */
function once(problems: readonly Problem[]): Problem[] {
  return [...new Map(problems.map((problem) => [`${problem.field} ${problem.message}`, problem])).values()];
}
