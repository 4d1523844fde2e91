/** Errors that an API server sends on a watch. */
import { ApiError, statusOf } from '../errors.ts';

/** The requested version is newer than the server's: its etcd was restored from a backup. */
export function isTooNew(error: unknown): boolean {
  return error instanceof ApiError && /too large resource version/i.test(error.message);
}

/** The error of an ERROR event, whose object is a Status. */
export function watchError(cluster: string, path: string, object: unknown): Error {
  const status = statusOf(object);
  const code = (object as { code?: unknown }).code;
  if (status === undefined) return new Error('the watch brought an error that is not a Status');
  return new ApiError({ cluster, method: 'GET', path }, typeof code === 'number' ? code : 500, status);
}
