/**
 * A cause: why something is not done, and whose fault it is. The code that makes a cause sets both as fields. No reader
 * decides them from a text, because texts hold names, paths and messages of users and servers.
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

/** Who can remove the cause: the author of the rule, or the people who run Keyferry, clusters and Vault; or nobody. */
export type Fault = 'user' | 'operator' | 'nobody';

/** Reason and message are those of a condition of Kubernetes: one word in CamelCase, and a text for people. */
export interface Cause<Reason extends string = string> {
  readonly reason: Reason;
  readonly message: string;
  readonly fault: Fault;
  /**
   * The message for a tenant: the same, or another text if the message has names that a tenant may not know (quotas,
   * webhooks, addresses, rules of others).
   */
  readonly publicMessage: string;
}

/** A cause that the author of the rule can remove: a mistake in it, or the state of an object that it names. */
export function userCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'user', publicMessage };
}

/** A cause that the operator's people can remove: missing permissions, silent servers, and all that is not known. */
export function operatorCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'operator', publicMessage };
}

/** Nothing is wrong: work is under way, or is not needed any more. */
export function nobodyCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'nobody', publicMessage };
}

/** The fields of the cause alone, of an outcome, plan or view. */
export function causeOf<R extends string>({ reason, message, fault, publicMessage }: Cause<R>): Cause<R> {
  return { reason, message, fault, publicMessage };
}

/** Reason and message in one text, for a line without a column for the reason. */
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
 * The cause of an error, for a status. Its message is the server's. A tenant reads this only if it is about the
 * tenant's own object, because others name quotas, webhooks, policies and users.
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
  // 422 of an unknown cause: the object is not valid, but the message may be about another object.
  return status === 422 ? userCause(reason, message, refused) : operatorCause(reason, message, refused);
}
