/**
 * The keys of rules, objects, Vault entries and logins. A key is a reference as text, for maps, queues and logs. Only
 * this module makes keys and reads them. The types are branded, so that TypeScript refuses any other text as a key.
 */

declare const BRAND: unique symbol;
type Key<Of extends string> = string & { readonly [BRAND]: Of };

/** A rule, with which a user requests copies: `mirrors:default/mysecret-mirror`, `replicator:Secret/default/app`. */
export type RuleKey = Key<'rule'>;
/** An object of a cluster: `local:Secret/default/mysecret`. */
export type ObjectKey = Key<'object'>;
/** An entry in Vault: `vault:https://vault.example:8200/secret/data/app#1f…`. */
export type EntryKey = Key<'entry'>;
/** A resource that can hold content: an object in a cluster, or an entry in Vault. */
export type ResourceKey = ObjectKey | EntryKey;

/** A Vault login that is used outside the engine: its rule and a purpose. The engine uses the entry's key instead. */
export type LoginKey = Key<'login'>;
/** The key of the work that a Vault login is used for. */
export type VaultUser = EntryKey | LoginKey;

/** The name of Vault's backend, with which the keys of its entries begin. */
export const VAULT_BACKEND = 'vault';
const ENTRY_PREFIX = `${VAULT_BACKEND}:`;

export interface ObjectName {
  readonly cluster: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

export interface RuleParts {
  readonly controller: string;
  /** The kind of the rule's object. `''`: the controller has rules of only one kind. */
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

/** The key of a namespaced object. */
export function resourceKey(cluster: string, kind: string, namespace: string, name: string): ObjectKey {
  return `${cluster}:${kind}/${namespace}/${name}` as ObjectKey;
}

/**
 * @param server scheme, host and port
 * @param digest differs for each Vault namespace; for a source also for each login and rule
 */
export function entryKey(server: string, path: string, digest: string): EntryKey {
  return `${VAULT_BACKEND}:${server}/${path}#${digest}` as EntryKey;
}

/** The key of a rule. The controller has rules of only one kind. */
export function ruleKey(controller: string, namespace: string, name: string): RuleKey {
  return `${controller}:${namespace}/${name}` as RuleKey;
}

/** The key of a rule. The controller has rules of several kinds. */
export function ruleKeyOfKind(controller: string, kind: string, namespace: string, name: string): RuleKey {
  return `${controller}:${kind}/${namespace}/${name}` as RuleKey;
}

export function loginKey(rule: RuleKey, purpose: string): LoginKey {
  return `${rule} ${purpose}` as LoginKey;
}

/** The rule that `loginKey` was called with. */
export function ruleOfLogin(login: LoginKey): RuleKey {
  return login.slice(0, login.indexOf(' ')) as RuleKey;
}

/** The parts of an object's key. @throws TypeError if the key is that of a Vault entry */
export function parseResourceKey(key: ResourceKey): ObjectName {
  const colon = key.indexOf(':');
  const first = key.indexOf('/', colon);
  const second = key.indexOf('/', first + 1);
  if (colon < 0 || first < 0 || second < 0) throw new TypeError(`not the key of a Kubernetes object: ${key}`);
  const third = key.indexOf('/', second + 1);
  return {
    cluster: key.slice(0, colon),
    kind: key.slice(colon + 1, first),
    namespace: key.slice(first + 1, second),
    name: key.slice(second + 1, third < 0 ? undefined : third),
  };
}

/** The kind in an object's key. @throws TypeError if the key is that of a Vault entry */
export function kindOf(key: ResourceKey): string {
  const colon = key.indexOf(':');
  const slash = key.indexOf('/', colon);
  if (colon < 0 || slash < 0 || isEntryKey(key)) throw new TypeError(`not the key of a Kubernetes object: ${key}`);
  return key.slice(colon + 1, slash);
}

/** The parts of a rule's key. */
export function parseRuleKey(key: RuleKey): RuleParts {
  const colon = key.indexOf(':');
  const last = key.lastIndexOf('/');
  const before = key.lastIndexOf('/', last - 1);
  return {
    controller: key.slice(0, colon),
    kind: before < 0 ? '' : key.slice(colon + 1, before),
    namespace: key.slice(Math.max(colon, before) + 1, last),
    name: key.slice(last + 1),
  };
}

/** Whether a key is that of an entry in Vault. */
export function isEntryKey(key: ResourceKey | VaultUser): key is EntryKey {
  return key.startsWith(ENTRY_PREFIX);
}

/** The server that `entryKey` was called with. */
export function serverOf(key: EntryKey): string {
  const start = ENTRY_PREFIX.length;
  const host = key.indexOf('//', start);
  const end = key.indexOf('/', host < 0 ? start : host + 2);
  return key.slice(start, end < 0 ? undefined : end);
}

/** The name of the backend that has the resource: the cluster's name, or `vault`. */
export function backendOf(key: ResourceKey): string {
  return key.slice(0, key.indexOf(':'));
}

/** The name of the controller that serves the rule: `mirrors`. */
export function controllerOf(rule: RuleKey): string {
  return rule.slice(0, rule.indexOf(':'));
}

/** The rule's name for users, without its controller: `default/mysecret-mirror`. */
export function ruleName(rule: RuleKey): string {
  return rule.slice(rule.indexOf(':') + 1);
}

/** The namespace of a rule, or of an object. `''` for an entry in Vault. */
export function namespaceOf(key: RuleKey | ResourceKey): string {
  if (key.startsWith(ENTRY_PREFIX)) return '';
  const end = key.lastIndexOf('/');
  return key.slice(Math.max(key.indexOf(':'), key.lastIndexOf('/', end - 1)) + 1, end);
}
