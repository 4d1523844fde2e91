/** Classifies errors: whether they are transient, and what users see. */
import { ApiError, ConnectionError, isConflict, isNotFound, isServerTrouble } from '../../kube/errors.ts';

/** A failure in a status. The message of an API error is that of the server. */
export interface Failure {
  readonly reason: string;
  readonly message: string;
}

/** Whether the error is transient: the server has trouble, or the cache is behind and a watch will update it. */
export function isPassing(error: unknown): boolean {
  return error instanceof ConnectionError || isServerTrouble(error) || isConflict(error) || isNotFound(error);
}

export function failureOf(error: unknown): Failure {
  if (error instanceof ApiError) return { reason: error.reason, message: error.statusMessage };
  return { reason: 'ConnectionError', message: error instanceof Error ? error.message : String(error) };
}
