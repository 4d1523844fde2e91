/**
 * Who can make a rule ready that is not: the author of the rule, or the people who run Keyferry, its clusters and Vault. Pure.
 *
 * A reason that is not known here is the operator's, so that no failure of ours is taken for a mistake of a user.
 */
import type { Cause } from '../../copy/model/claim.ts';

/** `none`: nobody; it waits for work that is under way. */
export type Fault = 'user' | 'operator' | 'none';

/** What an author has written, or the state of an object or entry that it names. */
const USER: ReadonlySet<string> = new Set([
  'Conflict',
  'Contested',
  'Cycle',
  'Deleted',
  'Denied',
  'ErrorAnnotation',
  'IllFormed',
  'Immutable',
  'Invalid',
  'InvalidKeys',
  'InvalidSpec',
  'InvalidStore',
  'InvalidValues',
  'Loop',
  'NoData',
  'NotMade',
  'NotOffered',
  'Overwritten',
  'RefusedType',
  'RequestEntityTooLarge',
  'SourceEmpty',
  'SourceInUse',
  'StoreNotAllowed',
  'StoreNotFound',
  'TooLarge',
  'UnknownAnnotation',
  'UnsupportedAuth',
  'UnsupportedProvider',
  'VaultAuthInvalid',
  'VaultAuthMissing',
  'VaultNotFound',
]);

/** Nothing is wrong, or not any more. */
const UNDER_WAY: ReadonlySet<string> = new Set([
  'Exists',
  'Gone',
  'NamespaceTerminating',
  'NestedProperty',
  'Pending',
  'Recreating',
  'Released',
  'Success',
  'Terminating',
]);

/** A source that does not exist: `NoSecret`, `NoConfigMap`, and the same of other kinds. */
const NO_SOURCE = /^No[A-Z]\w*$/;

/**
 * Answers to what an author asked for, with a reason that also has other causes: quotas and policies of a namespace, an object that the API
 * server does not accept, and what Vault's policies and mounts do not allow the login of a rule.
 */
const ABOUT_THE_RULE =
  /for vault .* not found|cannot find .* under secret|exceeded quota|a quota of the namespace|denied (the )?request|ValidatingAdmissionPolicy|an admission policy or webhook refused|is invalid: |it is too large|permission denied|no handler for route|unsupported (path|operation)|does not (exist|have)/;

/** Permissions of Keyferry itself and its own credentials, whatever the reason. */
const ABOUT_KEYFERRY = /no permission to|cannot \w+ resource|\$VAULT_TOKEN/;

export function faultOf({ reason, message }: Cause): Fault {
  if (UNDER_WAY.has(reason)) return 'none';
  if (ABOUT_KEYFERRY.test(message)) return 'operator';
  if (USER.has(reason) || NO_SOURCE.test(reason)) return 'user';
  return ABOUT_THE_RULE.test(message) ? 'user' : 'operator';
}
