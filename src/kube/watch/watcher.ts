/**
 * Follows one collection of the API: lists it, then watches it, and passes objects and deletions to a sink.
 *
 *   unlisted ──list complete──▶ listed ──stream opened──▶ watching
 *     ▲                           │ ▲──stream ended or failed──┤
 *     └──410 Gone, or the version is not usable────────────────┘
 *
 * `watch-state.ts` describes the states and what follows a failure; `#step` does the work of each state.
 * - The list is read in compressed pages. When it is complete, the sink drops all objects that are not in the list. So it
 *   also drops objects that were deleted between two streams.
 * - When a stream has ended, the next one starts from the last version: at once, or after a failure with a jittered
 *   back-off.
 * - If no byte arrives for longer than the interval of the server's bookmarks, a new stream is opened at once, even if
 *   TCP reports no error.
 *
 * The watcher keeps no objects, and keeps the keys of objects only during a list.
 */
import { type Clock, systemClock } from '../../runtime/clock.ts';
import { sleep } from '../../runtime/abort.ts';
import { Backoff, RECONNECT, type ReconnectOptions } from '../../runtime/queue/backoff.ts';
import { type KubeApi, type KubeObject, METADATA_ONLY, isOlder } from '../api.ts';
import { isGone, isUnanswered } from '../errors.ts';
import { listEach } from '../list-each.ts';
import { afterEnd, afterFailure, isConnected, type Watching, type WatchState } from './watch-state.ts';
import { StalledWatchError, type WatchEvent, watchError, WatchStream } from './watch-stream.ts';
import { type WatchHealth, watchName, type WatchTarget } from './watch-target.ts';

/** Receives the objects and deletions of a watcher, in their order. Must not wait or throw. */
export interface WatchSink {
  /**
   * `object` exists with this content.
   * @returns whether the sink keeps the object. To save memory, the watcher remembers the keys of these objects alone.
   */
  upsert(object: KubeObject): boolean;
  /** `object`, which has its last content, was deleted or no longer matches the selector. */
  remove(object: KubeObject): void;
  /**
   * A list is complete. Objects whose key (`namespace/name` or `name`) is not in `keys` did not exist at this version.
   * @param namespace only this namespace was listed; `undefined`: the whole collection
   */
  prune(keys: ReadonlySet<string>, resourceVersion: string, namespace?: string): void;
}

export interface WatcherOptions {
  readonly api: KubeApi;
  readonly target: WatchTarget;
  readonly sink: WatchSink;
  readonly clock?: Clock;
  readonly reconnect?: ReconnectOptions;
  /** Longest silence of a stream, ms. A bookmark comes every 60 to 75 s. Default 90,000. */
  readonly idleLimitMs?: number;
  /** Called one time for each stream that failed, but not for a stream that ended as planned. */
  readonly onTrouble?: (error: unknown, retryInMs: number) => void;
  /** Called when a list has an older version than an earlier list: the server's etcd was restored from a backup. */
  readonly onRollback?: () => void;
}

/** If a stream ends as planned, but within this time, it counts as failed; ms. */
const SHORT_STREAM_MS = 1000;
/** Longest wait before a stream is opened again, ms: a CRD or a permission may come at any time. */
const LONGEST_WAIT_MS = 4000;
/** Time limit of a page of a list, ms. */
const PAGE_TIMEOUT_MS = 60_000;
/** Most whole objects in a page of a list: with 500 SyncSecrets in a page, the process takes 5 to 9 MiB more. */
const WHOLE_PAGE_SIZE = 50;

export class Watcher {
  readonly #options: WatcherOptions;
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  /** Whether the last try got no answer. */
  #wasUnanswered = false;
  readonly #stop = new AbortController();
  readonly #synced = Promise.withResolvers<void>();
  #state: WatchState;
  #hasSynced = false;
  #running: Promise<void> | undefined;

  constructor(options: WatcherOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#backoff = new Backoff({ ...RECONNECT, maxMs: LONGEST_WAIT_MS, clock: this.#clock, ...options.reconnect });
    this.#state = { at: 'unlisted', since: this.#clock.monotonic() };
    this.#synced.promise.catch(() => {
      // A stop before the first list is an error only for callers that wait for `synced`.
    });
  }

  start(): this {
    this.#running ??= this.#run();
    return this;
  }

  /** Whether the sink has everything up to some version, so that no list is running or needed. */
  get isListed(): boolean {
    return this.#state.at !== 'unlisted';
  }

  /** Settles when the first list is complete; rejects if the watcher is stopped before. */
  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  get health(): WatchHealth {
    const state = this.#state;
    const { target } = this.#options;
    const { collection, scope } = target;
    const common = { name: watchName(target), collection, scope, synced: this.#hasSynced };
    const now = this.#clock.monotonic();
    if (isConnected(state)) return { ...common, connected: true, silentMs: now - state.stream.lastByteAt };
    const { since, error } = state;
    return { ...common, connected: false, silentMs: now - since, error: error?.message, cause: error };
  }

  /** Opens a new stream if nothing has arrived for `silentMs`. If the stream was healthy, this costs one request. */
  reopenIfSilent(silentMs: number): void {
    const state = this.#state;
    if (isConnected(state) && this.#clock.monotonic() - state.stream.lastByteAt >= silentMs) state.stream.close();
  }

  /** After this call the sink gets nothing more, not even events that have already arrived. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    this.#synced.reject(new Error(`the watch of ${watchName(this.#options.target)} was stopped`));
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.#step(signal);
      } catch (error) {
        const retryInMs = this.#fail(error);
        // A stop ends the sleep with an error, and then the loop.
        if (retryInMs > 0) await sleep(retryInMs, signal, this.#clock).catch(() => undefined);
      }
    }
    const state = this.#state;
    if (!isConnected(state)) return;
    state.stream.close();
    this.#state = afterEnd(state, this.#clock.monotonic());
  }

  /** Does the work of the current state, and sets the next state. */
  async #step(signal: AbortSignal): Promise<void> {
    const state = this.#state;
    switch (state.at) {
      case 'unlisted': {
        const resourceVersion = await this.#list(state.newest, signal);
        const { since, error } = state;
        this.#state = { at: 'listed', resourceVersion, isNew: true, since, error };
        break;
      }
      case 'listed': {
        const { resourceVersion } = state;
        const stream = await this.#open(resourceVersion, signal);
        this.#state = { at: 'watching', stream, resourceVersion };
        break;
      }
      case 'watching': {
        const open = await state.stream.next((event) => this.#take(state, event));
        if (!open) this.#end(state);
        break;
      }
      default:
        state satisfies never;
    }
  }

  /** @returns the version of the list, which the sink now has */
  async #list(newest: string | undefined, signal: AbortSignal): Promise<string> {
    const { api, target, sink, onRollback } = this.#options;
    const keys = new Set<string>();
    const take = (object: KubeObject): void => {
      signal.throwIfAborted();
      if (sink.upsert(object)) keys.add(objectKey(object));
    };
    const pageSize = target.metadataOnly ? undefined : WHOLE_PAGE_SIZE;
    const options = { ...target, pageSize, timeoutMs: PAGE_TIMEOUT_MS, signal };
    const resourceVersion = await listEach(api, target.path, take, options);
    signal.throwIfAborted();
    if (newest !== undefined && isOlder(resourceVersion, newest)) onRollback?.();
    sink.prune(keys, resourceVersion, target.namespace);
    this.#hasSynced = true;
    this.#synced.resolve();
    return resourceVersion;
  }

  async #open(resourceVersion: string, signal: AbortSignal): Promise<WatchStream> {
    const { api, target, idleLimitMs } = this.#options;
    const { path, labelSelector, fieldSelector, metadataOnly } = target;
    const timeoutSeconds = Math.round(240 + 50 * Math.random());
    const stream = await api.stream({
      method: 'GET',
      path,
      accept: metadataOnly ? METADATA_ONLY : 'application/json',
      query: { watch: 1, allowWatchBookmarks: true, timeoutSeconds, labelSelector, fieldSelector, resourceVersion },
      signal,
    });
    this.#backoff.opened();
    return new WatchStream(stream, this.#clock, idleLimitMs);
  }

  #take(state: Watching, { type, object }: WatchEvent): void {
    this.#stop.signal.throwIfAborted();
    const { target, sink } = this.#options;
    switch (type) {
      case 'ADDED':
      case 'MODIFIED':
        sink.upsert(object);
        break;
      case 'DELETED':
        sink.remove(object);
        break;
      case 'BOOKMARK':
        break;
      case 'ERROR':
        throw watchError(target.path, object);
      default:
        throw new Error(`the watch sent an event of unknown type ${JSON.stringify(type)}`);
    }
    state.resourceVersion = object.metadata.resourceVersion;
  }

  /** Called when the server ended the stream. @throws Error if it was open only briefly, so that the next one waits */
  #end(state: Watching): void {
    const now = this.#clock.monotonic();
    if (now - state.stream.openedAt < SHORT_STREAM_MS) throw new Error('the server ended the watch at once');
    state.stream.close();
    this.#state = afterEnd(state, now);
  }

  /** @returns ms to wait before the next step */
  #fail(error: unknown): number {
    const state = this.#state;
    const now = this.#clock.monotonic();
    if (isConnected(state)) state.stream.close();
    this.#state = afterFailure(state, error, now);
    if (this.#stop.signal.aborted) return 0;
    // A quiet collection of a server that sends no bookmarks, or a dead stream: if it is dead, the next one fails, too.
    if (error instanceof StalledWatchError) return 0;
    // A version that is too old is listed again at once, but not without a pause if that of a new list is too old, too.
    const isExpired = isGone(error) && (isConnected(state) || (state.at === 'listed' && state.isNew !== true));
    const retryInMs = isExpired ? 0 : this.#waitAfter(error);
    this.#options.onTrouble?.(error, retryInMs);
    return retryInMs;
  }

  #waitAfter(error: unknown): number {
    // After an outage the waits start from the shortest again, because a starting server refuses some calls.
    const isOutageOver = this.#wasUnanswered && !isUnanswered(error);
    this.#wasUnanswered = isUnanswered(error);
    if (isOutageOver) this.#backoff.reset();
    return this.#backoff.next(error);
  }
}

/** `namespace/name`, or `name` for objects without a namespace. */
export function objectKey(object: KubeObject): string {
  const { namespace, name } = object.metadata;
  return namespace === undefined ? name : `${namespace}/${name}`;
}
