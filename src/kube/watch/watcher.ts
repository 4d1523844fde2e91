/**
 * Follows one collection of the API: lists it, then watches it, for ever, and tells a sink what is there.
 *
 *   listing ──list complete──▶ watching ──stream ends──▶ resuming ──▶ watching
 *      ▲                          │                          │
 *      └──────410 Gone────────────┴──────────────────────────┘        stop() from anywhere ▶ stopped
 *
 * - listing: the first list, streamed as a watch (WatchList, KEP-3157) where the server has it, in compressed pages elsewhere and where
 *   very many objects are expected. When it
 *   is complete the sink drops what it holds and the list did not name: so a deletion in any gap is seen.
 * - watching: one open stream, followed from its `#resourceVersion`.
 * - resuming: the stream ended (its time was up) or broke: the same again from where it stood, after a jittered back-off when
 *   it broke. Only a 410 (the server no longer knows that version) goes back to listing, and a version at which the server
 *   says nothing but errors, or nothing at all.
 *
 * The watcher holds no objects. It knows how fresh it is: connected or not, since when, and when the last byte came. A
 * stream without a byte for longer than the server's bookmarks allow is dead, whatever TCP says, and is opened again.
 */
import { type Clock, systemClock } from '../../runtime/clock.ts';
import { sleep } from '../../runtime/abort.ts';
import { Backoff, RECONNECT, type ReconnectOptions } from '../../runtime/backoff.ts';
import type { KubeApi, KubeObject, KubeStream } from '../api.ts';
import { ConnectionError, isBadRequest, isGone, isInvalid, isNotFound, retryAfterMs } from '../errors.ts';
import { parseJson } from '../json.ts';
import { LineSplitter } from './line-splitter.ts';
import { isTooNew, watchError } from './watch-errors.ts';
import { isOlder } from '../resource-version.ts';
import { acceptOf, selectorsOf, type WatchTarget } from './watch-query.ts';
import { StalledWatchError, StreamGuard } from './stream-guard.ts';

/** Takes what a watcher sees. Calls come in order and must not wait or throw. */
export interface WatchSink {
  /**
   * `object` is there, as it is now. `initial`: it is part of a list, not news.
   * @returns whether it is any business of the sink's. Of what is not, nothing is remembered, so that a list costs no memory for it.
   */
  upsert(object: KubeObject, initial: boolean): boolean;
  /** `object` was deleted, or no longer matches the selector. It is as it was last seen. */
  remove(object: KubeObject): void;
  /**
   * A list is complete: what is the sink's business and not among `keys` (`namespace/name`, or `name`) was not there at
   * `resourceVersion`.
   */
  prune(keys: ReadonlySet<string>, resourceVersion: string): void;
}

export interface WatcherOptions {
  readonly api: KubeApi;
  readonly target: WatchTarget;
  readonly sink: WatchSink;
  readonly clock?: Clock;
  readonly random?: () => number;
  readonly reconnect?: ReconnectOptions;
  /** A stream that has brought a bookmark and then no byte for this long (ms) is dead. Bookmarks come every 60–75 s. Default 90,000. */
  readonly idleLimitMs?: number;
  /** Called once per stream that broke (not for one whose time was up). */
  readonly onTrouble?: (error: unknown, retryInMs: number) => void;
  /** Called when a list is of an older version than one that came before: the server's etcd was set back. */
  readonly onRollback?: () => void;
  /** Called at every change of `health` that readiness may care for. */
  readonly onChange?: () => void;
}

export interface WatchHealth {
  readonly name: string;
  /** The first list has been complete once. */
  readonly synced: boolean;
  /** A stream is open, and what came before it is listed: the sink has what the server has. */
  readonly connected: boolean;
  /** Ms since the last byte, or since the connection was lost; a list under way does not count as word from the server. */
  readonly silentMs: number;
  /** Streams opened again after trouble. */
  readonly restarts: number;
  /** Why it is not connected. */
  readonly error?: string;
}

/** Ms without a byte after which a stream is dead that has brought a bookmark: they come every 60 to 75 s. */
const IDLE_WITH_BOOKMARKS_MS = 90_000;
/** Ms without a byte after which a stream that never brought a bookmark is dead: above every `timeoutSeconds` that we ask for. */
const IDLE_WITHOUT_BOOKMARKS_MS = 320_000;
/** A stream that ends regularly, but within this many ms, counts as trouble. */
const SHORT_STREAM_MS = 1000;
/** Streams in a row that bring nothing but an error, at one version: then that version is given up and all is listed anew. */
const REFUSALS_LIMIT = 3;
/** Longest wait before a stream is opened again, ms: whatever the outage, 10 s after it we are up to date. */
const LONGEST_WAIT_MS = 7000;
/** Longest wait where the collection itself is not there, ms: its CRD may be installed at any time. */
const ABSENT_WAIT_MS = 4000;
/** Page of a list, as in client-go. */
const PAGE_SIZE = 500;
/** Largest page that is read, uncompressed, in bytes: 500 objects are a quarter of it, but one can be as large as etcd takes. */
const PAGE_BYTES = 2 * 1024 * 1024;
/** A page that is larger is asked for with so many times fewer objects. */
const PAGE_SHRINK = 8;
/** A list in pages, ms a page. */
const PAGE_TIMEOUT_MS = 60_000;
const INITIAL_END = 'k8s.io/initial-events-end';

interface WatchEvent {
  readonly type: string;
  readonly object: KubeObject;
}

interface ObjectList {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  /** `null` in a list of metadata that names none. */
  readonly items: readonly KubeObject[] | null;
}

export class Watcher {
  readonly #options: WatcherOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #backoff: Backoff;
  readonly #stop = new AbortController();
  readonly #synced = Promise.withResolvers<void>();
  #resourceVersion: string | undefined;
  /** The last before all has to be listed anew. A list asks for the latest, so it is no older. */
  #newest: string | undefined;
  #streamedList: boolean;
  #stream: KubeStream | undefined;
  #hasSynced = false;
  #connected = false;
  #sawBookmark = false;
  #silentSince: number;
  #openedAt = 0;
  /** When the open stream brought its last byte, or was opened. */
  #heardAt = 0;
  #refusals = 0;
  #restarts = 0;
  #error: string | undefined;
  #running: Promise<void> | undefined;

  constructor(options: WatcherOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
    this.#streamedList = options.target.inPages !== true;
    this.#backoff = new Backoff({
      ...RECONNECT,
      maxMs: LONGEST_WAIT_MS,
      random: this.#random,
      clock: this.#clock,
      ...options.reconnect,
    });
    this.#silentSince = this.#clock.monotonic();
    this.#synced.promise.catch(() => {
      // Nobody need wait for the first list; a stop before it is not an error of its own.
    });
  }

  start(): this {
    this.#running ??= this.#run();
    return this;
  }

  /** Nothing is passed over: no list is under way or due. */
  get isListed(): boolean {
    return this.#resourceVersion !== undefined;
  }

  /** Settles when the first list is complete; rejects when the watcher is stopped before. */
  get synced(): Promise<void> {
    return this.#synced.promise;
  }

  get health(): WatchHealth {
    return {
      name: this.#options.target.name,
      synced: this.#hasSynced,
      connected: this.#connected,
      silentMs: this.#clock.monotonic() - this.#silentSince,
      restarts: this.#restarts,
      ...(this.#error === undefined ? {} : { error: this.#error }),
    };
  }

  /** Something that this stream should have brought has not come: opens it again from where it stands. */
  reopen(): void {
    this.#stream?.close();
  }

  /** As `reopen`, if nothing has come for `silentMs`. Costs the server one request where the silence meant nothing. */
  reopenIfSilent(silentMs: number): void {
    if (this.#connected && this.#clock.monotonic() - this.#heardAt >= silentMs) this.reopen();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#stream?.close();
    await this.#running;
    this.#synced.reject(new Error(`the watch of ${this.#options.target.name} was stopped`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        if (this.#resourceVersion === undefined && !this.#streamedList) await this.#listInPages(signal);
        await this.#follow(signal);
      } catch (error) {
        if (signal.aborted) break;
        await this.#recover(error, signal);
      }
    }
    this.#connected = false;
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    const stalled = error instanceof StalledWatchError;
    this.#lost(error instanceof Error ? error.message : String(error), stalled ? this.#heardAt : undefined);
    // To a version that is still to come the server says nothing at all, bookmarks included.
    const unheard = stalled && this.#heardAt === this.#openedAt;
    // What is served again after a 404 is another collection than the one that was followed.
    const absent = isNotFound(error);
    if (isGone(error) || isTooNew(error) || absent || unheard || this.#refusals >= REFUSALS_LIMIT) {
      // No wait is due for an old version: the list may be had at once, and if that fails too there is one.
      const old = this.#resourceVersion !== undefined && isGone(error);
      this.#newest = this.#resourceVersion ?? this.#newest;
      this.#resourceVersion = undefined;
      this.#refusals = 0;
      if (old) {
        this.#restarts += 1;
        this.#options.onTrouble?.(error, 0);
        return;
      }
    } else if (this.#streamedList && this.#resourceVersion === undefined && (isBadRequest(error) || isInvalid(error))) {
      // Servers without WatchList (before 1.32, 1.33) refuse `sendInitialEvents`.
      this.#streamedList = false;
      return;
    }
    this.#restarts += 1;
    // The server did answer, and the silence was wait enough.
    if (stalled) this.#backoff.reset();
    const backoffMs = this.#backoff.next(retryAfterMs(error));
    const retryInMs = absent ? Math.min(backoffMs, ABSENT_WAIT_MS) : backoffMs;
    this.#options.onTrouble?.(error, retryInMs);
    try {
      await sleep(retryInMs, signal, this.#clock);
    } catch (error) {
      // Aborted: the loop's condition ends it.
      if (!signal.aborted) throw error;
    }
  }

  #found(): void {
    this.#connected = true;
    this.#error = undefined;
    this.#silentSince = this.#clock.monotonic();
    this.#options.onChange?.();
  }

  /** @param since when the stream was good for the last time. Default: now */
  #lost(error?: string, since = this.#clock.monotonic()): void {
    if (this.#connected) this.#silentSince = since;
    this.#connected = false;
    this.#error = error;
    this.#options.onChange?.();
  }

  /** One stream, from its opening to its end. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { api, target } = this.#options;
    const initial = this.#resourceVersion === undefined;
    const timeoutSeconds = Math.round(240 + 50 * this.#random());
    const stream = await api.stream({
      method: 'GET',
      path: target.path,
      accept: acceptOf(target),
      query: {
        watch: 1,
        allowWatchBookmarks: true,
        timeoutSeconds,
        ...selectorsOf(target),
        ...(initial
          ? { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan' }
          : { resourceVersion: this.#resourceVersion }),
      },
      signal,
    });
    this.#stream = stream;
    this.#backoff.opened();
    this.#openedAt = this.#clock.monotonic();
    this.#heardAt = this.#openedAt;
    // What happened while no stream was open is still to come, or to be listed; after a resumption it comes at once.
    if (!initial) this.#found();
    using guard = this.#guard(stream);
    try {
      await this.#consume(stream, initial ? new Set<string>() : undefined);
    } catch (error) {
      throw guard.explain(error);
    } finally {
      this.#stream = undefined;
      stream.close();
    }
    const stalled = guard.explain();
    if (stalled !== undefined) throw stalled;
    // The regular end of a stream costs no back-off, unless the server ends it as soon as it is open.
    if (this.#clock.monotonic() - this.#openedAt < SHORT_STREAM_MS)
      throw new Error('the server ended the watch at once');
    this.#lost();
  }

  async #consume(stream: KubeStream, listed: Set<string> | undefined): Promise<void> {
    const splitter = new LineSplitter();
    let pending = listed;
    const onLine = (line: Buffer): void => {
      const event = parseJson(line, 'a line of the watch') as WatchEvent;
      if (this.#take(event, pending)) pending = undefined;
    };
    for await (const chunk of stream.chunks) {
      this.#heardAt = this.#clock.monotonic();
      if (this.#connected) this.#silentSince = this.#heardAt;
      splitter.push(chunk, onLine);
    }
    if (splitter.pendingBytes > 0) throw new Error('the watch was cut off in the middle of a line');
    if (pending !== undefined) throw new Error('the watch ended before its list was complete');
  }

  /** @returns true when `event` completes the list */
  #take(event: WatchEvent, listed: Set<string> | undefined): boolean {
    const { sink } = this.#options;
    switch (event.type) {
      case 'ADDED':
      case 'MODIFIED':
        if (sink.upsert(event.object, listed !== undefined)) listed?.add(objectKey(event.object));
        break;
      case 'DELETED':
        listed?.delete(objectKey(event.object));
        sink.remove(event.object);
        break;
      case 'BOOKMARK':
        this.#sawBookmark = true;
        break;
      case 'ERROR':
        this.#refusals += 1;
        throw watchError(this.#options.api.cluster, this.#options.target.path, event.object);
      default:
        throw new Error(`the watch brought an event of unknown type ${JSON.stringify(event.type)}`);
    }
    this.#refusals = 0;
    // Within a streamed list the versions of single objects say nothing about how far the stream is.
    if (listed === undefined) {
      this.#resourceVersion = event.object.metadata.resourceVersion;
      return false;
    }
    if (event.type !== 'BOOKMARK' || event.object.metadata.annotations?.[INITIAL_END] !== 'true') return false;
    this.#resourceVersion = event.object.metadata.resourceVersion;
    this.#complete(listed, this.#resourceVersion);
    return true;
  }

  #complete(listed: ReadonlySet<string>, resourceVersion: string): void {
    if (this.#newest !== undefined && isOlder(resourceVersion, this.#newest)) this.#options.onRollback?.();
    this.#options.sink.prune(listed, resourceVersion);
    this.#hasSynced = true;
    this.#synced.resolve();
    if (this.#stream === undefined) this.#options.onChange?.();
    else this.#found();
  }

  async #listInPages(signal: AbortSignal): Promise<void> {
    const { sink } = this.#options;
    const listed = new Set<string>();
    let limit = PAGE_SIZE;
    let from = '';
    for (;;) {
      const page = await this.#page(limit, from, signal);
      if (page === undefined) {
        limit = Math.ceil(limit / PAGE_SHRINK);
        continue;
      }
      for (const object of page.items ?? []) {
        if (sink.upsert(object, true)) listed.add(objectKey(object));
      }
      limit = Math.min(PAGE_SIZE, limit * 2);
      from = page.metadata.continue ?? '';
      if (from !== '') continue;
      this.#resourceVersion = page.metadata.resourceVersion;
      this.#complete(listed, this.#resourceVersion);
      return;
    }
  }

  /** `undefined`: so many objects are too large together. One is taken as large as it is. */
  async #page(limit: number, from: string, signal: AbortSignal): Promise<ObjectList | undefined> {
    const { api, target } = this.#options;
    try {
      const { body } = await api.request({
        method: 'GET',
        path: target.path,
        accept: acceptOf(target, 'List'),
        query: { limit, continue: from === '' ? undefined : from, ...selectorsOf(target) },
        compressed: true,
        ...(limit > 1 ? { maxBytes: PAGE_BYTES } : {}),
        timeoutMs: PAGE_TIMEOUT_MS,
        signal,
      });
      return parseJson(body, `a page of ${target.path}`) as ObjectList;
    } catch (error) {
      if (limit > 1 && error instanceof ConnectionError && error.code === 'EMSGSIZE') return undefined;
      throw error;
    }
  }

  /** Closes `stream` when it has been silent for too long. */
  #guard(stream: KubeStream): StreamGuard {
    const idleLimitMs = this.#options.idleLimitMs ?? IDLE_WITH_BOOKMARKS_MS;
    return new StreamGuard({
      clock: this.#clock,
      silentMs: () => this.#clock.monotonic() - this.#heardAt,
      limitMs: () => (this.#sawBookmark ? idleLimitMs : IDLE_WITHOUT_BOOKMARKS_MS),
      everyMs: idleLimitMs / 4,
      close: () => stream.close(),
    });
  }
}

/** `namespace/name`, or `name` for what has no namespace. */
export function objectKey(object: KubeObject): string {
  const { namespace, name } = object.metadata;
  return namespace === undefined ? name : `${namespace}/${name}`;
}
