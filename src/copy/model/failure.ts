/** Classifies errors: whether they are transient, and their text in a status. */
import type { Cause } from './claim.ts';
import { ApiError, ConnectionError, isConflict, isNotFound, isServerFailure } from '../../kube/errors.ts';

/** Whether the error is transient: the server has a problem, or a watch has not updated the cache yet. */
export function isPassing(error: unknown): boolean {
  return error instanceof ConnectionError || isServerFailure(error) || isConflict(error) || isNotFound(error);
}

/** The failure for a status. The message of an API error is that of the server. */
export function failureOf(error: unknown): Cause {
  const isInternal = true;
  if (error instanceof ApiError) return { reason: error.reason, message: error.statusMessage, isInternal };
  return { reason: 'ConnectionError', message: error instanceof Error ? error.message : String(error), isInternal };
}
