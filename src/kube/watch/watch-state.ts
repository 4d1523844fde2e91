/**
 * The states of a watcher, and the state after a failure. Pure; `Watcher` acts on them. After a failure before the list
 * is complete, the watcher is `unlisted` again. After a later failure it is `listed`: the next stream continues from
 * the last version. Only if the server no longer serves this version, everything is listed again.
 */
import { ApiError, isGone, isNotFound, isThrottled } from '../errors.ts';
import { StalledWatchError, type WatchStream } from './watch-stream.ts';

interface Disconnected {
  /** When the stream was last known to work, or when the watcher was created: monotonic, ms. */
  readonly since: number;
  /** Why the last attempt failed; `undefined`: there was none, or it did not fail. */
  readonly error?: Error | undefined;
}

/** The watcher has to list the collection next. */
interface Unlisted extends Disconnected {
  readonly at: 'unlisted';
  /** The last version that was seen. If a list has an older one, the server's etcd was restored from a backup. */
  readonly newest?: string | undefined;
}

/** The sink has everything up to `resourceVersion`. The watcher has to open a stream from this version next. */
interface Listed extends Disconnected {
  readonly at: 'listed';
  readonly resourceVersion: string;
  /** Set if `resourceVersion` is that of a list, from which no stream was tried yet. */
  readonly isNew?: true;
}

/** The stream sends the changes. */
export interface Watching {
  readonly at: 'watching';
  readonly stream: WatchStream;
  /** The version of the last event. */
  resourceVersion: string;
}

export type WatchState = Unlisted | Listed | Watching;

export function isConnected(state: WatchState): state is Watching {
  return state.at === 'watching';
}

/** The state after the server ended the stream as planned, at `timeoutSeconds`. */
export function afterEnd({ resourceVersion }: Watching, now: number): Listed {
  return { at: 'listed', resourceVersion, since: now };
}

/**
 * The state after a step that failed with `error`.
 * @param now monotonic, ms
 */
export function afterFailure(state: WatchState, error: unknown, now: number): Unlisted | Listed {
  const isStalled = error instanceof StalledWatchError;
  const failure = {
    since: !isConnected(state) ? state.since : isStalled ? state.stream.lastByteAt : now,
    error: error instanceof Error ? error : new Error(String(error)),
  };
  if (state.at === 'unlisted') return { at: 'unlisted', newest: state.newest, ...failure };
  const { resourceVersion } = state;
  // If the requested version does not exist yet, the server sends nothing on the stream, not even bookmarks.
  const isSilent = isStalled && isConnected(state) && state.stream.lastByteAt === state.stream.openedAt;
  // An error that an open stream sends, for example of an object that cannot be decoded, may come again at this version.
  const isSent = isConnected(state) && error instanceof ApiError && !isThrottled(error);
  // A 404 may mean that the server now serves another collection under this path.
  const isUseless = isSilent || isSent || isGone(error) || isTooNew(error) || isNotFound(error);
  return isUseless
    ? { at: 'unlisted', newest: resourceVersion, ...failure }
    : { at: 'listed', resourceVersion, ...failure };
}

/** Whether the requested version is newer than the server's, because its etcd was restored from a backup. */
function isTooNew(error: unknown): boolean {
  return error instanceof ApiError && /too large resource version/i.test(error.message);
}
