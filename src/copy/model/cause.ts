/**
 * Why something is not done, and whose fault that is. The code that makes a cause sets both as fields. No reader decides them from a text, because
 * texts hold the names, paths and messages of users and servers.
 */
import {
  ApiError,
  ConnectionError,
  isConflict,
  isNamespaceTerminating,
  isNotFound,
  isServerFailure,
  reasonOfStatus,
} from '../../kube/errors.ts';

/** Who can end it: the author of the rule, or whoever runs Keyferry, its clusters and Vault. `nobody`: work is under way. */
export type Fault = 'user' | 'operator' | 'nobody';

/** As in a condition of Kubernetes: one word in CamelCase, and a text for people. */
export interface Cause<Reason extends string = string> {
  readonly reason: Reason;
  readonly message: string;
  readonly fault: Fault;
  /**
   * The message for a tenant: the same, or another text where it has names that a tenant may not know (quotas, webhooks, addresses, rules of
   * others).
   */
  readonly publicMessage: string;
}

/** The author of the rule can end it: a mistake in it, or the state of an object or entry that it names. */
export function userCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'user', publicMessage };
}

/** Whoever runs Keyferry, its clusters and Vault can end it: permissions of Keyferry, servers that do not answer, and all that is not known. */
export function operatorCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'operator', publicMessage };
}

/** Nothing is wrong: work is under way, or is not needed any more. */
export function nobodyCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'nobody', publicMessage };
}

/** Only the cause of an outcome, plan or view. */
export function causeOf<R extends string>({ reason, message, fault, publicMessage }: Cause<R>): Cause<R> {
  return { reason, message, fault, publicMessage };
}

/** For a line that does not show the reason beside the message. */
export function withReason({ reason, message }: Pick<Cause, 'reason' | 'message'>): string {
  return `${reason}: ${message}`;
}

export function sameCause(a: Cause | undefined, b: Cause | undefined): boolean {
  return (
    a?.reason === b?.reason &&
    a?.message === b?.message &&
    a?.fault === b?.fault &&
    a?.publicMessage === b?.publicMessage
  );
}

/** Whether the error is transient: the server has a problem, or a watch has not updated the cache yet. */
export function isPassing(error: unknown): boolean {
  return error instanceof ConnectionError || isServerFailure(error) || isConflict(error) || isNotFound(error);
}

/** The text for a tenant, because the tenant may not be allowed to know the other owner. */
export const OTHER_OWNER = 'an object of another owner is in its place, or it keeps changing';

/**
 * The failure for a status. Its message is that of the server, of which a tenant reads only what is about its own object: other messages name
 * quotas, webhooks, policies and users.
 */
export function failureOf(error: unknown): Cause {
  if (!(error instanceof ApiError)) {
    const message = error instanceof Error ? error.message : String(error);
    return operatorCause('ConnectionError', message, 'the API server did not answer');
  }
  const { status, reason, statusMessage: message, detected } = error;
  const { refusal } = detected;
  switch (refusal?.by) {
    case 'permission':
      return operatorCause(reason, message, `the operator has no permission to ${refusal.verb} ${refusal.resource}`);
    case 'quota':
      return userCause(reason, message, 'a quota of the namespace is used up');
    case 'admission':
      return userCause(reason, message, 'an admission policy or webhook refused it');
    case 'size':
      return userCause(reason, message, 'it is too large for the cluster');
    case 'validation':
      return userCause(reason, message);
    case undefined:
  }
  if (isNamespaceTerminating(error)) return nobodyCause(reason, message, 'its namespace is being deleted');
  if (isConflict(error)) return userCause(reason, message, OTHER_OWNER);
  const refused = `the API server refused it (${reasonOfStatus(status)}); see the log of the operator`;
  // 422: the object is not valid, in words that may be about another one.
  return status === 422 ? userCause(reason, message, refused) : operatorCause(reason, message, refused);
}
