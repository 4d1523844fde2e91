/**
 * The locations of entries in Vault, by their keys as sources and targets, and the rules that use them.
 *
 * A source has a key for each rule, because dynamic credentials are made for one rule. Rules for the same KV entry with
 * the same login still share one poll (`vaultPollKey`). A key is only text
 * (`vault:https://vault.example:8200/secret/data/app#1f…`), so its location is stored as long as a rule uses it.
 */
import { createHash } from 'node:crypto';

import type { EntryPath } from '../../vault/kv/mounts.ts';
import { getOrCreate, SetMap } from '../../runtime/maps.ts';
import { normalizePath } from '../../vault/path.ts';
import type { VaultServer } from '../../vault/client/server.ts';
import type { ValueEncoding } from '../../vault/kv/values.ts';
import { entryKey, type EntryKey, type RuleKey } from '../model/keys.ts';

/** A Secret or ServiceAccount of the cluster. */
export interface ObjectRef {
  readonly namespace: string;
  readonly name: string;
}

/** One key of a Secret. */
export interface VaultSecretKey extends ObjectRef {
  readonly key: string;
}

/** A login: the method, and the objects with its credentials. */
export type VaultAuthRef = (
  | { readonly method: 'token'; readonly token: VaultSecretKey }
  | {
      readonly method: 'approle';
      readonly mount: string;
      readonly roleId: VaultSecretKey | { readonly text: string };
      readonly secretId: VaultSecretKey;
    }
  | {
      readonly method: 'kubernetes';
      readonly mount: string;
      readonly role: string;
      readonly serviceAccount: ObjectRef;
      readonly audiences: readonly string[];
      /** Whether the server may get a token that the API server accepts. */
      readonly apiTokens: boolean;
    }
  /** The token of the process: $VAULT_TOKEN, or that of `vault login`. */
  | { readonly method: 'environment' }
) & {
  /** The namespace of Vault that the login is in. `undefined`: that of the server. */
  readonly loginNamespace?: string;
};

/** The object that holds the credential, as text: logins with different objects do not wait for each other. */
export function accountOf(auth: VaultAuthRef): string {
  if (auth.method === 'environment') return auth.method;
  const { namespace, name } =
    auth.method === 'kubernetes' ? auth.serviceAccount : auth.method === 'token' ? auth.token : auth.secretId;
  return `${namespace}/${name}`;
}

export interface VaultLocation {
  readonly server: VaultServer;
  readonly auth: VaultAuthRef;
  readonly path: string;
  readonly encoding: ValueEncoding;
  /** Type of the Secrets that get the content; `undefined`: no Secret does, so any key is valid. */
  readonly secretType: string | undefined;
}

interface EntryLocation extends Pick<VaultLocation, 'path'> {
  readonly server: Pick<VaultServer, 'url' | 'namespace'>;
}

/** The key of a location as the source of one rule. @throws VaultPathError */
export function vaultSourceKey(location: VaultLocation, rule: RuleKey): EntryKey {
  return keyOf(location, [...readParameters(location), rule]);
}

/** Equal for locations of one entry that are read with the same login in the same way. @throws VaultPathError */
export function vaultPollKey(location: VaultLocation): EntryKey {
  return keyOf(location, readParameters(location));
}

/**
 * The origin of a lease: address, Vault namespace and path, login, and encoding, but not TLS settings and the type of
 * the copies. A lease of another origin is never used for this location.
 * @throws VaultPathError
 */
export function vaultLeaseOrigin(location: VaultLocation): string {
  return hashOf(location, [location.auth, location.encoding]);
}

function readParameters({ server, auth, encoding, secretType }: VaultLocation): readonly unknown[] {
  return [server.connectionKey, auth, encoding, secretType ?? null];
}

/**
 * The key of a location as a target. All rules that write to one entry have the same, because only one of them may.
 * @throws VaultPathError
 */
export function vaultTargetKey({ server: { url, namespace }, path }: EntryLocation): EntryKey {
  return keyOf({ server: { url: commonAddress(url), namespace }, path }, []);
}

/**
 * One address for all names that always mean the same server. The `cluster_id` that a server reports is not used: the
 * owner of a server could claim to be another Vault, and so cause conflicts for the rules of that Vault.
 */
function commonAddress(url: URL): URL {
  const common = new URL(url);
  common.hostname = url.hostname
    .replace(/^(?:localhost\.?|\[::1\])$/, '127.0.0.1')
    .replace(/(?<=\.svc)\.cluster\.local\.?$/, '');
  return common;
}

function keyOf(location: EntryLocation, parameters: readonly unknown[]): EntryKey {
  return entryKey(location.server.url.origin, normalizePath(location.path), hashOf(location, parameters));
}

function hashOf({ server: { url, namespace }, path }: EntryLocation, parameters: readonly unknown[]): string {
  const parts = JSON.stringify([url.href, namespace, normalizePath(path), parameters]);
  return createHash('sha256').update(parts).digest('hex').slice(0, 16);
}

/** The use of a location by one rule. */
export interface VaultUse {
  readonly key: EntryKey;
  readonly location: VaultLocation;
  /** Poll period. */
  readonly pollSeconds: number;
}

type Users = Map<RuleKey, VaultUse>;

/**
 * The locations of the keys. Controllers add them when they evaluate a rule.
 *
 * In KV 2 `secret/app` and `secret/data/app` are one entry; in KV 1 they are two. So the key of a target has the path
 * of the spec until Vault's response shows the mount (`learn`). Then its rules are evaluated again.
 */
export class VaultLocations {
  readonly #users = new Map<EntryKey, Users>();
  readonly #usesOf = new Map<RuleKey, readonly VaultUse[]>();
  /** Rules that use a path, by the target key with the path of the spec. */
  readonly #rulesAt = new SetMap<EntryKey, RuleKey>();
  /** The path in Vault of a target key, if it differs from the spec. Only for paths that a rule uses. */
  readonly #paths = new Map<EntryKey, string>();
  readonly #onPollNow: (key: EntryKey) => void;
  readonly #onKeyChanged: (rule: RuleKey) => void;

  /**
   * @param onPollNow called when an entry has a shorter poll period than before, or another location
   * @param onKeyChanged called when a target key of the rule has changed
   */
  constructor(onPollNow: (key: EntryKey) => void, onKeyChanged: (rule: RuleKey) => void = () => undefined) {
    this.#onPollNow = onPollNow;
    this.#onKeyChanged = onKeyChanged;
  }

  /** The key of a location as a target. It is equal for all paths that are known to mean the same entry. */
  targetKeyOf(location: VaultLocation): EntryKey {
    const written = vaultTargetKey(location);
    const path = this.#paths.get(written);
    return path === undefined ? written : vaultTargetKey({ ...location, path });
  }

  /**
   * Stores the mount that Vault reported for a path.
   * @returns whether a target key has changed; then its rules are evaluated again
   */
  learn(location: VaultLocation, { known, mount, dataPath }: EntryPath): boolean {
    const written = vaultTargetKey(location);
    // A path outside KV is never a target, because only KV stores can be written to.
    if (!known || mount.kind === 'other' || !this.#rulesAt.has(written)) return false;
    const path = dataPath === normalizePath(location.path) ? undefined : dataPath;
    if (path === this.#paths.get(written)) return false;
    if (path === undefined) this.#paths.delete(written);
    else this.#paths.set(written, path);
    for (const rule of this.#rulesAt.get(written)) this.#onKeyChanged(rule);
    return true;
  }

  /** Replaces the uses of a rule. */
  set(rule: RuleKey, uses: readonly VaultUse[]): void {
    const pollNow: EntryKey[] = [];
    for (const use of uses) {
      const users = getOrCreate(this.#users, use.key, () => new Map());
      const before = users.get(rule);
      const isPolledSooner = users.size > 0 && use.pollSeconds * 1000 < this.pollMs(use.key);
      const hasNewLocation = before !== undefined && JSON.stringify(before.location) !== JSON.stringify(use.location);
      if (isPolledSooner || hasNewLocation) pollNow.push(use.key);
      users.set(rule, use);
    }
    const before = this.#usesOf.get(rule) ?? [];
    const keys = new Set(uses.map(({ key }) => key));
    for (const { key } of before) {
      if (keys.has(key)) continue;
      const users = this.#users.get(key);
      users?.delete(rule);
      if (users?.size === 0) this.#users.delete(key);
    }
    if (uses.length > 0) this.#usesOf.set(rule, uses);
    else this.#usesOf.delete(rule);
    this.#index(rule, before, uses);
    for (const key of pollNow) this.#onPollNow(key);
  }

  #index(rule: RuleKey, before: readonly VaultUse[], uses: readonly VaultUse[]): void {
    const written = new Set(uses.map(({ location }) => vaultTargetKey(location)));
    for (const place of written) this.#rulesAt.add(place, rule);
    for (const { location } of before) {
      const place = vaultTargetKey(location);
      if (!written.has(place) && this.#rulesAt.delete(place, rule)) this.#paths.delete(place);
    }
  }

  /** The location of a key for a rule. Without a rule: for any user; for a source they are the same. */
  get(key: EntryKey, rule?: RuleKey): VaultLocation | undefined {
    const users = this.#users.get(key);
    if (rule !== undefined) return users?.get(rule)?.location;
    for (const { location } of users?.values() ?? []) return location;
    return undefined;
  }

  /** Rules that use a key. */
  users(key: EntryKey): Iterable<RuleKey> {
    return this.#users.get(key)?.keys() ?? [];
  }

  /** The shortest poll period of the rules that use a key, ms; `Infinity` without rules. */
  pollMs(key: EntryKey): number {
    const periods = [...(this.#users.get(key)?.values() ?? [])].map(({ pollSeconds }) => pollSeconds * 1000);
    return Math.min(...periods);
  }
}
