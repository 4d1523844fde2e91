/**
 * The entry of a key, exactly where ESO reads it (`buildPath` of its Vault provider), as the path of Vault's API: for KV 2 with `data/`
 * after the mount.
 */
import { normalizePath, VaultPathError } from '../../../vault/path.ts';

/** What a store says about the secrets engine. */
export interface StoreMount {
  /** `spec.provider.vault.path`: where the engine is mounted. `undefined`: the keys say it. */
  readonly mount: string | undefined;
  readonly version: 'v1' | 'v2';
}

/** The key names no entry. The message quotes it, or says how long it is. */
export class EntryPathError extends Error {
  override readonly name = 'EntryPathError';
}

/** Longest key, characters. Vault stores each entry under its path, and its storage has limits of this size. */
const MAX_KEY = 512;

/** @throws EntryPathError for a key that is empty, too long, or has dot segments, which Vault would read as another path */
export function entryPathOf(key: string, { mount, version }: StoreMount): string {
  if (key.length > MAX_KEY)
    throw new EntryPathError(`has ${key.length} characters, and at most ${MAX_KEY} are allowed`);
  // The client of Vault that ESO uses removes empty segments, too.
  const path = normalized(withMount(key, mount, version));
  if (path === undefined) throw new EntryPathError(`${JSON.stringify(key)} is not the path of an entry`);
  const root = mount === undefined ? path.split('/', 1)[0] : normalized(mount);
  const entry = path.slice((root?.length ?? 0) + 1);
  if (entry === '' || (version === 'v2' && entry === 'data')) {
    throw new EntryPathError(`${JSON.stringify(key)} names a mount, not an entry in it`);
  }
  return path;
}

function withMount(key: string, mount: string | undefined, version: StoreMount['version']): string {
  if (mount === undefined) {
    if (version === 'v1' || key.includes('/data/')) return key;
    const [first = '', ...rest] = key.split('/');
    return [first, 'data', ...rest].join('/');
  }
  const inMount = key.startsWith(`${mount}/`) ? key.slice(mount.length + 1) : undefined;
  const isPrefixed = inMount?.startsWith('data/') === true && version === 'v2';
  const entry = isPrefixed ? inMount.slice('data/'.length) : (inMount ?? key);
  return version === 'v2' ? `${mount}/data/${entry}` : `${mount}/${entry}`;
}

function normalized(path: string): string | undefined {
  try {
    return normalizePath(path);
  } catch (error) {
    if (!(error instanceof VaultPathError)) throw error;
    return undefined;
  }
}
