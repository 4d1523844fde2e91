/** What an API server says on a watch instead of an event. */
import { ApiError, statusOf } from '../errors.ts';

/** The server's etcd was set back: it waits for a version that will not come. */
export function isTooNew(error: unknown): boolean {
  return error instanceof ApiError && /too large resource version/i.test(error.message);
}

/** An ERROR event's object is a Status. */
export function watchError(cluster: string, path: string, object: unknown): Error {
  const status = statusOf(object);
  const code = (object as { code?: unknown }).code;
  if (status === undefined) return new Error('the watch brought an error that is not a Status');
  return new ApiError({ cluster, method: 'GET', path }, typeof code === 'number' ? code : 500, status);
}
