/** What is to be made of an error: whether to be patient with it, and what users are told. */
import { ApiError, ConnectionError, isConflict, isNotFound, isServerTrouble } from '../../kube/errors.ts';

/** In words for a status: one of a server that said no is that server's. */
export interface Failure {
  readonly reason: string;
  readonly message: string;
}

/** Whether it passes by itself: the server has trouble, or what we know is not what it has, of which a watch is about to tell. */
export function isPassing(error: unknown): boolean {
  return error instanceof ConnectionError || isServerTrouble(error) || isConflict(error) || isNotFound(error);
}

export function failureOf(error: unknown): Failure {
  if (error instanceof ApiError) return { reason: error.reason, message: error.statusMessage };
  return { reason: 'ConnectionError', message: error instanceof Error ? error.message : String(error) };
}
