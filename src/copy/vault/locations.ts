/**
 * Finds the location of an entry in Vault (server, login, path) by its key, and the rules that use the entry.
 *
 * As a source, an entry has another key for each rule, because dynamic credentials are made for one rule. A key is only
 * text (`vault:https://vault.example:8200/secret/data/app#1f…`). So its location is stored as long as a rule uses the key.
 */
import { createHash } from 'node:crypto';

import { getOrCreate } from '../../runtime/maps.ts';
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

/** A login to Vault: its method, and the objects in the cluster that have its credentials. */
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
      /** Whether Vault may get a token that the API server accepts, too. */
      readonly apiTokens: boolean;
    }
  /** The token of the process: $VAULT_TOKEN, or the token that `vault login` stored. */
  | { readonly method: 'environment' }
) & {
  /** The Vault namespace of the login. `undefined`: the namespace of the server's settings. */
  readonly loginNamespace?: string;
};

/** The namespace of the object with the credential; empty if the process itself has it. */
export function credentialNamespaceOf(auth: VaultAuthRef | undefined): string {
  if (auth === undefined || auth.method === 'environment') return '';
  const object =
    auth.method === 'kubernetes' ? auth.serviceAccount : auth.method === 'token' ? auth.token : auth.secretId;
  return object.namespace;
}

export interface VaultLocation {
  readonly server: VaultServer;
  readonly auth: VaultAuthRef;
  readonly path: string;
  readonly encoding: ValueEncoding;
  /** Type of the Secrets that get the content; `undefined`: no Secret gets it, so every key of a value is valid. */
  readonly secretType: string | undefined;
}

interface EntryLocation extends Pick<VaultLocation, 'path'> {
  readonly server: Pick<VaultServer, 'url' | 'namespace'>;
}

/** The key that a location has as the source of `rule`. @throws VaultPathError */
export function vaultSourceKey(location: VaultLocation, rule: RuleKey): EntryKey {
  const { server, auth, encoding, secretType } = location;
  return keyOf(location, [server.connectionKey, auth, encoding, secretType ?? null, rule]);
}

/**
 * The origin of a lease: a digest of address, Vault namespace, path, login and encoding. TLS settings and the type of
 * the copies are not in it. A lease is never used for a location with another origin.
 * @throws VaultPathError
 */
export function vaultLeaseOrigin(location: VaultLocation): string {
  return hashOf(location, [location.auth, location.encoding]);
}

/**
 * The key of a location as a target. It is the same for all rules that write to one entry, because only one of these
 * rules may write. In KV 2, `secret/app` and `secret/data/app` are one entry. Only Vault knows the mount and its version.
 * So the key is without the first segment `data`, which follows the mount in Vault's API. In KV 1 such paths have one
 * key, too. A path without the `data` of the API, but with such a segment later, has the key of another entry.
 * @throws VaultPathError
 */
export function vaultTargetKey({ server: { url, namespace }, path }: EntryLocation): EntryKey {
  const plain = normalizePath(path).replace(/(?<=\/)data\//, '');
  return keyOf({ server: { url: commonAddress(url), namespace }, path: plain }, []);
}

/**
 * The same address for all host names that always mean the same server. The `cluster_id` that a server reports is not
 * used: a server could report the id of another Vault, and so cause conflicts for the rules of the other Vault.
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

/** A key and location that a rule uses, as its source or target. */
export interface VaultUse {
  readonly key: EntryKey;
  readonly location: VaultLocation;
  /** Poll period, seconds. */
  readonly pollSeconds: number;
}

type Users = Map<RuleKey, VaultUse>;

/** Poll period of a key without a rule, ms: the rule was evaluated, but its new claims are not in the book yet. */
const UNUSED_POLL_MS = 60_000;

/** The locations of all keys that rules use. Controllers set them when they evaluate a rule. */
export class VaultLocations {
  readonly #users = new Map<EntryKey, Users>();
  readonly #usesOf = new Map<RuleKey, readonly VaultUse[]>();
  readonly #onPollNow: (key: EntryKey) => void;

  /** @param onPollNow called when a key gets a shorter poll period than before, or another location */
  constructor(onPollNow: (key: EntryKey) => void) {
    this.#onPollNow = onPollNow;
  }

  /** Replaces the keys and locations that a rule uses. */
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
    const keys = new Set(uses.map(({ key }) => key));
    for (const { key } of this.#usesOf.get(rule) ?? []) {
      if (keys.has(key)) continue;
      const users = this.#users.get(key);
      users?.delete(rule);
      if (users?.size === 0) this.#users.delete(key);
    }
    if (uses.length > 0) this.#usesOf.set(rule, uses);
    else this.#usesOf.delete(rule);
    for (const key of pollNow) this.#onPollNow(key);
  }

  /** The location of a key for a rule. Default: for any rule that uses the key; the key of a source has only one. */
  get(key: EntryKey, rule?: RuleKey): VaultLocation | undefined {
    const users = this.#users.get(key);
    if (rule !== undefined) return users?.get(rule)?.location;
    for (const { location } of users?.values() ?? []) return location;
    return undefined;
  }

  /** The rules that use a key. */
  users(key: EntryKey): Iterable<RuleKey> {
    return this.#users.get(key)?.keys() ?? [];
  }

  /** The shortest poll period of the rules that use a key, ms. */
  pollMs(key: EntryKey): number {
    const periods = Array.from(this.#users.get(key)?.values() ?? [], ({ pollSeconds }) => pollSeconds * 1000);
    return periods.length > 0 ? Math.min(...periods) : UNUSED_POLL_MS;
  }

  /** As `pollMs`, but a little shorter at random, so that many keys are not polled at once. */
  nextPollMs(key: EntryKey): number {
    return this.pollMs(key) * (0.9 + 0.1 * Math.random());
  }
}
