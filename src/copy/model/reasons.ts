/**
 * The words of all reasons: their meaning, the person who can end them, and the advice. Conditions, events and the
 * commands take them from here. A sentence with names or numbers is made where these are known. A sentence that several
 * places say is below.
 */

/**
 * The person who can end a reason. `author`: of the rule. `owner`: of an object, a namespace or an entry that the rule is
 * about. `policy`: the keeper of limits, consents, quotas and admission policies. `vault`, `cluster`: the operator of
 * these and of Keyferry. `server`: the message of the server tells which of them. `nobody`: nothing is wrong, or it
 * passes.
 */
type Mender = 'author' | 'owner' | 'policy' | 'vault' | 'cluster' | 'server' | 'nobody';

/** Whose fault a reason is, for metrics and alerts. */
export const FAULTS = {
  author: 'user',
  owner: 'user',
  policy: 'user',
  vault: 'operator',
  cluster: 'operator',
  server: 'operator',
  nobody: 'nobody',
} as const satisfies Readonly<Record<Mender, string>>;

interface Entry {
  readonly who: Mender;
  /** What the reason means. This is the message if the place that has the reason knows no more. */
  readonly says: string;
  /** What ends it, as advice; '' if nobody needs to do anything. */
  readonly how: string;
}

const entry = (who: Mender, says: string, how = ''): Entry => ({ who, says, how });

export const REASONS = {
  // The rule is wrong, or selects what it cannot have.
  InvalidSpec: entry('author', 'the spec has a mistake', 'correct the field that the message names'),
  IllFormed: entry('author', 'an annotation is invalid', 'correct the annotation that the message names'),
  Unsupported: entry('author', 'Keyferry cannot do what an annotation asks for', 'write it in another way'),
  UnknownAnnotation: entry('author', 'an annotation under the prefix is unknown', 'correct its name, or remove it'),
  ErrorAnnotation: entry('author', 'an annotation is invalid', 'give it a value that the message names'),
  RuleRemoved: entry(
    'author',
    'the annotations that asked for the copies are gone, so the copies go',
    'if another program removed them, put them into the template of that program',
  ),
  Suspended: entry('author', 'the rule is suspended', 'end the suspension'),
  TooManyTargets: entry(
    'author',
    'the rules of the namespace are at their limit',
    'delete some, select fewer namespaces, or use another namespace',
  ),
  MisreadPattern: entry(
    'author',
    'a pattern looks like a mistake: patterns are regular expressions of whole names, in separate items; for any text write .*',
    'correct the pattern: instead of the glob team-*, write team-.*',
  ),
  NoNamespace: entry(
    'author',
    'no such namespace, or it is being deleted; it gets its copy when it is created',
    'create the namespace, or take it out of the rule',
  ),
  NamespaceNotFound: entry('author', 'the namespace does not exist', 'create it, or take it out of the rule'),
  NotServed: entry('cluster', 'Keyferry does not serve the namespace', 'add it to --namespaces'),
  Cycle: entry('author', 'the content would return to its origin', 'take out one of the rules that the message names'),
  Loop: entry('author', 'the source is itself filled from this object', 'take out one of the two annotations'),
  KeyNotFound: entry('author', 'the source lacks a key that the rule names', 'correct spec.destination.keys'),
  RefusedType: entry('author', 'Secrets of this type are never copied', 'use a Secret of another type'),
  NoSecret: entry('author', 'the source does not exist', 'create it, or correct its name'),
  NoConfigMap: entry('author', 'the source does not exist', 'create it, or correct its name'),
  Invalid: entry(
    'author',
    'the API server does not accept the content of the copy',
    'correct the source or the rule, as the message says',
  ),
  NotMade: entry('author', 'no value is made for such an item', 'correct the item that the message names'),
  NestedProperty: entry('nobody', 'External Secrets Operator finds the property inside another value, so none is made'),
  UnsupportedAuth: entry('author', 'Keyferry does not support the login of the store', 'use another store'),
  UnsupportedProvider: entry('author', 'the store is not in Vault', 'use another store'),
  StoreNotFound: entry('author', 'the store does not exist', 'create it, or correct its name'),

  // An object, a namespace or an entry stands in the way.
  Conflict: entry('owner', 'the object belongs to another owner', 'delete it, or change one of the rules'),
  OriginConflict: entry(
    'owner',
    'the object is a copy from another cluster',
    'delete it, or give this cluster the name in its labels',
  ),
  Contested: entry(
    'owner',
    'another client keeps modifying or deleting it; the next repair has to wait',
    'stop the other client',
  ),
  Immutable: entry(
    'owner',
    'the object is immutable or has another type, and cannot be updated',
    'delete it, or create it again',
  ),
  TooLarge: entry('owner', 'the copy has too much metadata of other clients', 'remove labels or annotations from it'),
  NoData: entry('owner', 'no data in source secret; nothing is written', 'put data into the source'),
  SourceEmpty: entry('owner', 'the source has no data', 'put data into the source'),
  SourceInUse: entry(
    'owner',
    'the copy is kept while it is the source of other copies',
    'delete the rules that copy from it',
  ),
  Denied: entry(
    'owner',
    'the source does not exist, or does not allow the namespace',
    'allow the namespace in the annotations of the source',
  ),
  NotAccepted: entry('owner', 'the namespace does not accept copies from that of the rule', 'add the consent to it'),
  Deleted: entry('owner', 'the latest version of the entry is deleted', 'restore it, or permit a new version'),
  InvalidStore: entry('owner', 'the store has a mistake', 'correct the field that the message names'),
  InvalidKeys: entry('owner', 'the entry has keys that a Secret cannot have', 'rename them, or choose other keys'),
  InvalidValues: entry('owner', 'the entry has values that a Secret cannot have', 'correct them'),
  VaultNotFound: entry('owner', 'the entry does not exist, or is deleted', 'create or restore it, or correct the path'),
  VaultAuthMissing: entry('owner', 'the credential of the login does not exist', 'create what the message names'),

  // A policy forbids it.
  NotPermitted: entry('policy', 'a limit forbids it', 'take the namespace out, or change the flag in the message'),
  StoreNotAllowed: entry('policy', 'the store does not allow the namespace', 'change the conditions of the store'),
  Refused: entry(
    'policy',
    'an admission policy, a webhook, a quota or a size limit refuses the copy',
    'change what the message names, or the source',
  ),
  Overwritten: entry(
    'policy',
    'the server stored something else than was written: an admission policy or webhook changes it; backing off',
    'except copies (label keyferry.dev/copy) from the policy',
  ),

  // A server or a permission is missing.
  VaultAuthInvalid: entry('vault', 'Vault refuses the login', 'correct the credential, or the role in Vault'),
  VaultError: entry('vault', 'a read or write in Vault failed', 'see the message: a policy, the address, or TLS'),
  ErrorCreating: entry(
    'vault',
    'the value could not be written',
    'see the message: the login of the store may not write',
  ),
  Forbidden: entry('cluster', 'a permission is missing', 'apply the RBAC of this version, or helm upgrade'),
  Unauthorized: entry('cluster', 'the cluster does not accept the credentials', 'renew the kubeconfig'),
  NotInstalled: entry('cluster', 'the API is not installed', 'install its CRD'),
  ClusterUnreachable: entry('cluster', 'the cluster does not answer', 'check its address, certificates and network'),
  ConnectionError: entry('cluster', 'the API server did not answer', 'check the network'),
  SyncError: entry('server', 'a target could not be written or deleted', 'see the message of the server'),
  SyncFailed: entry('cluster', 'the copy could not be made', 'see the log of the operator'),
  DeletionTimeout: entry('cluster', 'the rule no longer waits for its copies', 'see why they cannot be deleted'),
  NotSeen: entry('cluster', 'not reconciled yet; check that Keyferry is running', 'start Keyferry'),
  Outdated: entry(
    'cluster',
    'the latest change is not reconciled yet; check that Keyferry is running',
    'start Keyferry, or see the events of the object',
  ),
  NotRun: entry('cluster', 'the controller does not run for this kind', 'add the kind to its flag'),
  Limited: entry(
    'cluster',
    'other namespaces decide on it, and they were not read',
    'run the command with more rights, without --namespaces',
  ),

  // Nothing is wrong, or it passes.
  Pending: entry('nobody', 'the work is not finished yet'),
  Synced: entry('nobody', 'everything is up to date'),
  Active: entry('nobody', 'everything is up to date'),
  Released: entry('nobody', 'the rule has let the target go'),
  Gone: entry('nobody', 'there is no copy to retain'),
  Terminating: entry('nobody', 'the object is being deleted and waits for its finalizers'),
  NamespaceTerminating: entry('nobody', 'its namespace is being deleted'),
  Deleting: entry('nobody', 'the rule is being deleted'),
  Missing: entry('nobody', 'the copy does not exist yet'),
  Cleared: entry('nobody', 'its source does not allow it'),
  Vault: entry('nobody', 'this command does not read Vault'),
  Success: entry('nobody', 'A random value was put into Vault.'),
  Exists: entry('nobody', 'Vault has the values.'),
  Recreating: entry('nobody', 'The Vault secret previously created cannot be found anymore, it needs to be recreated.'),
  VaultNewCreds: entry('nobody', 'the copies get new credentials of Vault'),
  VaultLeaseRenew: entry('nobody', 'Renewed lease successfully'),
} as const satisfies Readonly<Record<string, Entry>>;

export type Reason = keyof typeof REASONS;

export function noNamespace(name: string): string {
  return `namespace ${name} does not exist`;
}

/** A namespace that is being deleted counts as absent. */
export function noOrGoingNamespace(name: string): string {
  return `${noNamespace(name)}, or is being deleted`;
}
