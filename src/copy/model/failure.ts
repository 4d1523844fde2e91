/** Classifies errors: whether they are transient, and their cause for a status. */
import { type Cause, nobodyCause, operatorCause, userCause } from './cause.ts';
import {
  ApiError,
  ConnectionError,
  isConflict,
  isNamespaceTerminating,
  isNotFound,
  isServerFailure,
  reasonOfStatus,
} from '../../kube/errors.ts';

/** Whether the error is transient: the server has a problem, or a watch has not updated the cache yet. */
export function isPassing(error: unknown): boolean {
  return error instanceof ConnectionError || isServerFailure(error) || isConflict(error) || isNotFound(error);
}

/** For a tenant: who has the place of a copy, or keeps changing it, may be nothing for its eyes. */
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
