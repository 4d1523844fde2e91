/**
 * Entries in Vault as sources and targets: what a key of the engine stands for, and who uses it.
 *
 * A source has a key for each rule: dynamic credentials are made for one rule alone. Rules that mean the same KV entry, with the same
 * identity, share one poll and one reading all the same (`vaultPollKey`, copy/vault/sources.ts). A key is text
 * (`vault:https://vault.example:8200/secret/data/app#1f…`), so the registry remembers what it stands for, as long as a rule uses it.
 */
import { createHash } from 'node:crypto';

import type { EntryPath } from '../../vault/mounts.ts';
import { normalizePath } from '../../vault/path.ts';
import { parseTarget } from '../../vault/target.ts';
import type { VaultTargetOptions } from '../../vault/target.ts';
import type { ValueEncoding } from '../../vault/values.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';

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
export function vaultSourceKey(location: VaultLocation, rule: RuleKey): ResourceKey {
  return keyOf(location, [...waysOf(location), rule]);
}

/**
 * Equal for locations that mean the same entry, read by the same identity in the same way: one poll is enough for all of them.
 * @throws VaultError `invalidTarget`, VaultPathError
 */
export function vaultPollKey(location: VaultLocation): ResourceKey {
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
export function vaultTargetKey(location: VaultLocation): ResourceKey {
  return keyOf(location, []);
}

function keyOf(location: VaultLocation, how: readonly unknown[]): ResourceKey {
  const { origin } = parseTarget(location.target);
  return `${VAULT_BACKEND}:${origin}/${normalizePath(location.path)}#${hashOf(location, how)}`;
}

function hashOf(location: VaultLocation, how: readonly unknown[]): string {
  const { url, namespace } = parseTarget(location.target);
  const parts = JSON.stringify([url.href, namespace, normalizePath(location.path), how]);
  return createHash('sha256').update(parts).digest('hex').slice(0, 16);
}

export function isVaultKey(key: ResourceKey): boolean {
  return key.startsWith(`${VAULT_BACKEND}:`);
}

/** The server that a key's calls go to. What is slow there must hold up nothing else. */
export function laneOf(key: ResourceKey): string {
  const start = VAULT_BACKEND.length + 1;
  const host = key.indexOf('//', start);
  const end = key.indexOf('/', host < 0 ? start : host + 2);
  return key.slice(start, end < 0 ? undefined : end);
}

/** How one rule uses a location. */
export interface VaultUse {
  readonly key: ResourceKey;
  readonly location: VaultLocation;
  /** How old what we know of the entry may be. */
  readonly pollSeconds: number;
}

type Users = Map<RuleKey, VaultUse>;

/**
 * What the keys stand for. Filled by the systems when they evaluate a rule.
 *
 * In KV 2 `secret/app` and `secret/data/app` are one entry; in KV 1 they are two. So a place is called by the path as it is written until
 * Vault has told what is mounted there (`learn`); then the rules that name it are evaluated again.
 */
export class VaultLocations {
  readonly #users = new Map<ResourceKey, Users>();
  readonly #usesOf = new Map<RuleKey, readonly VaultUse[]>();
  /** Rules that name a path, by the place as it is written. */
  readonly #rulesAt = new Map<ResourceKey, Set<RuleKey>>();
  /** Where a place, as it is written, is by another path. Only of places that a rule names. */
  readonly #paths = new Map<ResourceKey, string>();
  readonly #onHurry: (key: ResourceKey) => void;
  readonly #onMoved: (rule: RuleKey) => void;

  /**
   * @param onHurry an entry shall be looked at more often than before, or in another way
   * @param onMoved a place that the rule names is called otherwise by now
   */
  constructor(onHurry: (key: ResourceKey) => void, onMoved: (rule: RuleKey) => void = () => undefined) {
    this.#onHurry = onHurry;
    this.#onMoved = onMoved;
  }

  /** The key of a location as a target: equal for all paths that are known to lead to the same entry. */
  placeOf(location: VaultLocation): ResourceKey {
    const written = vaultTargetKey(location);
    const path = this.#paths.get(written);
    return path === undefined ? written : vaultTargetKey({ ...location, path });
  }

  /**
   * Notes what Vault has told of a path. @returns whether the place is called otherwise by now: the rules that name it are evaluated again
   */
  learn(location: VaultLocation, { known, mount, dataPath }: EntryPath): boolean {
    const written = vaultTargetKey(location);
    const rules = this.#rulesAt.get(written);
    // What is in no KV store is no place to write to.
    if (!known || mount.kind === 'other' || rules === undefined) return false;
    const path = dataPath === normalizePath(location.path) ? undefined : dataPath;
    if (path === this.#paths.get(written)) return false;
    if (path === undefined) this.#paths.delete(written);
    else this.#paths.set(written, path);
    for (const rule of rules) this.#onMoved(rule);
    return true;
  }

  /** Makes `uses` all that the rule uses. */
  set(rule: RuleKey, uses: readonly VaultUse[]): void {
    const hurried: ResourceKey[] = [];
    for (const use of uses) {
      let users = this.#users.get(use.key);
      if (users === undefined) this.#users.set(use.key, (users = new Map()));
      const before = users.get(rule);
      const sooner = users.size > 0 && use.pollSeconds * 1000 < this.pollMs(use.key);
      const otherwise = before !== undefined && JSON.stringify(before.location) !== JSON.stringify(use.location);
      if (sooner || otherwise) hurried.push(use.key);
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
    this.#name(rule, before, uses);
    for (const key of hurried) this.#onHurry(key);
  }

  #name(rule: RuleKey, before: readonly VaultUse[], uses: readonly VaultUse[]): void {
    const written = new Set(uses.map(({ location }) => vaultTargetKey(location)));
    for (const place of written) {
      const rules = this.#rulesAt.get(place);
      if (rules === undefined) this.#rulesAt.set(place, new Set([rule]));
      else rules.add(rule);
    }
    for (const { location } of before) {
      const place = vaultTargetKey(location);
      if (written.has(place)) continue;
      const rules = this.#rulesAt.get(place);
      rules?.delete(rule);
      if (rules?.size !== 0) continue;
      this.#rulesAt.delete(place);
      this.#paths.delete(place);
    }
  }

  /** What a key stands for to a rule; without one, to any of its users: for a source that is the same. */
  get(key: ResourceKey, rule?: RuleKey): VaultLocation | undefined {
    const users = this.#users.get(key);
    if (rule !== undefined) return users?.get(rule)?.location;
    for (const { location } of users?.values() ?? []) return location;
    return undefined;
  }

  /** Rules that use it. */
  users(key: ResourceKey): Iterable<RuleKey> {
    return this.#users.get(key)?.keys() ?? [];
  }

  /** The shortest poll period of those who use it, ms; `Infinity` without any. */
  pollMs(key: ResourceKey): number {
    const periods = [...(this.#users.get(key)?.values() ?? [])].map(({ pollSeconds }) => pollSeconds * 1000);
    return Math.min(...periods);
  }
}
