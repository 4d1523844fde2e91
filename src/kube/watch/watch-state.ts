/**
 * The states of a watcher, and the state after a failure. Pure; `Watcher` does the step of each state. A failure before
 * the list is complete leads back to `unlisted`. A later failure leads to `listed`: the next stream continues from the
 * last version, and everything is listed again only if the server no longer serves this version.
 */
import { ApiError, isGone, isNotFound } from '../errors.ts';
import { StalledWatchError, type WatchStream } from './watch-stream.ts';

interface Disconnected {
  /** When the stream was last known to work, or the watcher was created: monotonic, ms. */
  readonly since: number;
  /** Why the last attempt failed. */
  readonly error?: Error | undefined;
}

/** The next step is a list. */
export interface Unlisted extends Disconnected {
  readonly at: 'unlisted';
  /** The last version that was seen. An older one in a list shows that the server's etcd was restored from a backup. */
  readonly newest?: string | undefined;
}

/** The list arrives on a stream. */
export interface Listing extends Disconnected {
  readonly at: 'listing';
  readonly newest?: string | undefined;
  readonly stream: WatchStream;
  /** Keys of the listed objects that the sink keeps. */
  readonly keys: Set<string>;
}

/** The sink has everything up to `resourceVersion`; the next step is a stream from there. */
export interface Listed extends Disconnected {
  readonly at: 'listed';
  readonly resourceVersion: string;
  /** Streams in a row that brought only an error. */
  readonly refusals: number;
}

/** The stream brings the changes. */
export interface Watching {
  readonly at: 'watching';
  readonly stream: WatchStream;
  /** The version of the last event. */
  resourceVersion: string;
  /** As in `Listed`. */
  refusals: number;
}

export type WatchState = Unlisted | Listing | Listed | Watching;

/** After so many streams in a row from one version that bring only an error, everything is listed again. */
const REFUSALS_LIMIT = 3;

export function isConnected(state: WatchState): state is Watching {
  return state.at === 'watching';
}

/** The state after the server ended the stream as planned. */
export function afterEnd({ resourceVersion, refusals }: Watching, now: number): Listed {
  return { at: 'listed', resourceVersion, refusals, since: now };
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
  if (state.at === 'unlisted' || state.at === 'listing') return { at: 'unlisted', newest: state.newest, ...failure };
  const { resourceVersion, refusals } = state;
  // On a stream from a version that does not exist yet the server sends nothing, not even bookmarks.
  const isSilent = isStalled && isConnected(state) && state.stream.lastByteAt === state.stream.openedAt;
  // After a 404 the server may serve another collection under this path than before.
  const isUseless = isSilent || isGone(error) || isTooNew(error) || isNotFound(error) || refusals >= REFUSALS_LIMIT;
  return isUseless
    ? { at: 'unlisted', newest: resourceVersion, ...failure }
    : { at: 'listed', resourceVersion, refusals, ...failure };
}

/** The requested version is newer than the server's: its etcd was restored from a backup. */
function isTooNew(error: unknown): boolean {
  return error instanceof ApiError && /too large resource version/i.test(error.message);
}
