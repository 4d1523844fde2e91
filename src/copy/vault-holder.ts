/**
 * Entries in Vault as sources and targets: what a key of the engine stands for, and who uses it.
 *
 * A source has a key for each rule: dynamic credentials are made for one rule alone. Rules that mean the same KV entry, with the same
 * identity, share one poll and one reading all the same (`vaultPollKey`, vault-sources.ts). A key is text
 * (`vault:https://vault.example:8200/secret/data/app#1f…`), so the registry remembers what it stands for, as long as a rule uses it.
 */
import { createHash } from 'node:crypto';

import { normalizePath } from '../vault/path.ts';
import { parseTarget } from '../vault/target.ts';
import type { VaultTargetOptions } from '../vault/target.ts';
import type { ValueEncoding } from '../vault/values.ts';
import type { HolderKey, RuleKey } from './keys.ts';

export const VAULT_BACKEND = 'vault';

/** Where a credential stands: a Secret of the cluster, and its keys. */
export interface SecretSpot {
  readonly namespace: string;
  readonly name: string;
}

export type VaultAuthRef =
  | { readonly method: 'token'; readonly secret: SecretSpot; readonly tokenKey: string }
  | {
      readonly method: 'approle';
      readonly secret: SecretSpot;
      readonly mount: string;
      readonly roleIdKey: string;
      readonly secretIdKey: string;
    }
  | {
      readonly method: 'kubernetes';
      readonly mount: string;
      readonly role: string;
      readonly serviceAccount: SecretSpot;
      readonly audiences: readonly string[];
      /** The server may be sent a token that the API server accepts. */
      readonly apiTokens: boolean;
    };

export interface VaultLocation {
  readonly target: VaultTargetOptions;
  readonly auth: VaultAuthRef;
  readonly path: string;
  readonly encoding: ValueEncoding;
  /** Type of the Secrets that are made of it; `undefined`: none are, so that any key will do. */
  readonly secretType: string | undefined;
}

/**
 * The key of a location as the source of one rule.
 * @throws VaultError `invalidTarget`, VaultPathError
 */
export function vaultSourceKey(location: VaultLocation, rule: RuleKey): HolderKey {
  return keyOf(location, [...waysOf(location), rule]);
}

/**
 * Equal for locations that mean the same entry, read by the same identity in the same way: one poll is enough for all of them.
 * @throws VaultError `invalidTarget`, VaultPathError
 */
export function vaultPollKey(location: VaultLocation): HolderKey {
  return keyOf(location, waysOf(location));
}

/**
 * What a lease belongs to: address, Vault namespace and path, the login, and the encoding. A lease of another origin is never used for
 * this location. How the connection is made and the type of the copies do not count.
 * @throws VaultError `invalidTarget`, VaultPathError
 */
export function vaultLeaseOrigin(location: VaultLocation): string {
  const { auth, encoding } = location;
  return hashOf(location, [auth, encoding]);
}

function waysOf({ target, auth, encoding, secretType }: VaultLocation): readonly unknown[] {
  return [parseTarget(target).connectionKey, auth, encoding, secretType ?? null];
}

/**
 * The key of a location as a target: equal for all who would write to the same entry, whoever they are to Vault, because only one
 * of them may.
 * @throws VaultError `invalidTarget`, VaultPathError
 */
export function vaultTargetKey(location: VaultLocation): HolderKey {
  return keyOf(location, []);
}

function keyOf(location: VaultLocation, how: readonly unknown[]): HolderKey {
  const { origin } = parseTarget(location.target);
  return `${VAULT_BACKEND}:${origin}/${normalizePath(location.path)}#${hashOf(location, how)}`;
}

function hashOf(location: VaultLocation, how: readonly unknown[]): string {
  const { url, namespace } = parseTarget(location.target);
  const parts = JSON.stringify([url.href, namespace, normalizePath(location.path), how]);
  return createHash('sha256').update(parts).digest('hex').slice(0, 16);
}

export function isVaultKey(key: HolderKey): boolean {
  return key.startsWith(`${VAULT_BACKEND}:`);
}

/** The server that a key's calls go to. What is slow there must hold up nothing else. */
export function laneOf(key: HolderKey): string {
  const start = VAULT_BACKEND.length + 1;
  const host = key.indexOf('//', start);
  const end = key.indexOf('/', host < 0 ? start : host + 2);
  return key.slice(start, end < 0 ? undefined : end);
}

/** How one rule uses a location. */
export interface VaultUse {
  readonly key: HolderKey;
  readonly location: VaultLocation;
  /** How old what we know of the entry may be. */
  readonly pollSeconds: number;
}

type Users = Map<RuleKey, VaultUse>;

/** What the keys stand for. Filled by the systems when they evaluate a rule. */
export class VaultHolders {
  readonly #users = new Map<HolderKey, Users>();
  readonly #keysOf = new Map<RuleKey, readonly HolderKey[]>();
  readonly #onHurry: (key: HolderKey) => void;

  /** @param onHurry an entry shall be looked at more often than before, or in another way */
  constructor(onHurry: (key: HolderKey) => void) {
    this.#onHurry = onHurry;
  }

  /** Makes `uses` all that the rule uses. */
  set(rule: RuleKey, uses: readonly VaultUse[]): void {
    const hurried: HolderKey[] = [];
    for (const use of uses) {
      let users = this.#users.get(use.key);
      if (users === undefined) this.#users.set(use.key, (users = new Map()));
      const before = users.get(rule);
      const sooner = users.size > 0 && use.pollSeconds * 1000 < this.pollMs(use.key);
      const otherwise = before !== undefined && JSON.stringify(before.location) !== JSON.stringify(use.location);
      if (sooner || otherwise) hurried.push(use.key);
      users.set(rule, use);
    }
    const keys = uses.map(({ key }) => key);
    for (const key of this.#keysOf.get(rule) ?? []) {
      if (keys.includes(key)) continue;
      const users = this.#users.get(key);
      users?.delete(rule);
      if (users?.size === 0) this.#users.delete(key);
    }
    if (keys.length > 0) this.#keysOf.set(rule, keys);
    else this.#keysOf.delete(rule);
    for (const key of hurried) this.#onHurry(key);
  }

  /** What a key stands for to a rule; without one, to any of its users: for a source that is the same. */
  get(key: HolderKey, rule?: RuleKey): VaultLocation | undefined {
    const users = this.#users.get(key);
    if (rule !== undefined) return users?.get(rule)?.location;
    for (const { location } of users?.values() ?? []) return location;
    return undefined;
  }

  /** Rules that use it. */
  users(key: HolderKey): Iterable<RuleKey> {
    return this.#users.get(key)?.keys() ?? [];
  }

  /** The shortest poll period of those who use it, ms; `Infinity` without any. */
  pollMs(key: HolderKey): number {
    const periods = [...(this.#users.get(key)?.values() ?? [])].map(({ pollSeconds }) => pollSeconds * 1000);
    return Math.min(...periods);
  }
}
