/**
 * A cause says why something is not done, and whose fault this is. The code that makes a cause sets both as fields. No
 * reader decides from the text of a message, because it contains names, paths and messages of users and servers.
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
import { FAULTS, type Reason, REASONS } from './reasons.ts';

/** Who can remove the cause: the rule's author, or those who run Keyferry, the clusters and Vault; `nobody`: no one. */
export type Fault = 'user' | 'operator' | 'nobody';

/** Reason and message are those of a Kubernetes condition: one word in CamelCase, and a text for people. */
export interface Cause<Reason extends string = string> {
  readonly reason: Reason;
  readonly message: string;
  readonly fault: Fault;
  /**
   * The message that a tenant may read: `message` itself, or another text if `message` has names that a tenant must not
   * know (quotas, webhooks, addresses, rules of others).
   */
  readonly publicMessage: string;
}

/** A cause that the rule's author can remove: a mistake in the rule, or the state of an object that the rule names. */
export function userCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'user', publicMessage };
}

/** A cause for those who run Keyferry: missing permissions, servers that do not answer, and everything unknown. */
function operatorCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'operator', publicMessage };
}

/** Nothing is wrong: the work is not finished yet, or is not needed any more. */
export function nobodyCause<R extends string>(reason: R, message: string, publicMessage = message): Cause<R> {
  return { reason, message, fault: 'nobody', publicMessage };
}

/** Makes a cause with the words of its reason. @param publicMessage what a tenant may read of it */
export function because<R extends Reason>(
  reason: R,
  message: string = REASONS[reason].says,
  publicMessage = message,
): Cause<R> {
  return { reason, message, fault: FAULTS[REASONS[reason].who], publicMessage };
}

/**
 * The cause of a target whose namespace is missing.
 * @param cluster another cluster, whose namespaces the authors of rules do not choose; `undefined`: the home cluster
 */
export function namespaceNotFound(message: string, cluster: string | undefined): Cause {
  if (cluster === undefined) return because('NamespaceNotFound', message, REASONS.NamespaceNotFound.says);
  const publicMessage = `the namespace in the ${cluster} cluster does not exist`;
  return { ...because('NamespaceNotFound', message, publicMessage), fault: 'operator' };
}

/** Takes only the fields of the cause from an object that has more fields: an outcome, a plan or a view. */
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

/** The text for a tenant about a conflict. It does not name the other owner, whom the tenant may not know. */
export const OTHER_OWNER = 'an object of another owner is in its place, or it keeps changing';

/**
 * Makes the cause of an error, for a status. `message` is the server's message. A tenant reads this message only if it
 * is about the tenant's own object, because other messages name quotas, webhooks, policies and users.
 */
export function failureOf(error: unknown): Cause {
  if (!(error instanceof ApiError)) {
    const message = error instanceof Error ? error.message : String(error);
    return because('ConnectionError', message, REASONS.ConnectionError.says);
  }
  const { status, reason, statusMessage: message, detected } = error;
  const { refusal } = detected;
  // The server's reason does not tell who can end it: a 403 may be a missing permission, a quota or a webhook.
  switch (refusal?.by) {
    case 'permission':
      return because('Forbidden', message, `the operator has no permission to ${refusal.verb} ${refusal.resource}`);
    case 'quota':
      return because('Refused', message, 'a quota of the namespace is used up');
    case 'admission':
      return because('Refused', message, 'an admission policy or webhook refused it');
    case 'size':
      return because('Refused', message, 'it is too large for the cluster');
    case 'validation':
      return because('Invalid', message);
    case undefined:
  }
  if (isNamespaceTerminating(error)) return because('NamespaceTerminating', message, REASONS.NamespaceTerminating.says);
  if (isConflict(error)) return because('Conflict', message, OTHER_OWNER);
  const refused = `the API server refused it (${reasonOfStatus(status)}); see the log of the operator`;
  // 422 for an unknown reason: the object is not valid, but the message may be about another object.
  return status === 422 ? because('Invalid', message, refused) : operatorCause(reason, message, refused);
}
