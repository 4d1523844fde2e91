/**
 * The metadata of the objects of one kind in one cluster, from several watches and from the responses to own writes.
 *
 * No single watch has every relevant object: one selects the copies by label, others follow single sources. Each watch
 * is a *feed*; Keyferry's own writes are a feed, too. A record stores which feeds confirm that its object exists.
 * Invariants:
 * - a record exists as long as at least one feed confirms the object, or an own write that no watch has brought yet;
 * - a record never goes back to an older resourceVersion of the same object;
 * - no record means *absent* only for objects that a complete watch covers; otherwise *unknown*.
 */
import { type KubeObject, type ObjectMeta, isOlder } from '../../../kube/api.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import { type Clock, systemClock } from '../../../runtime/clock.ts';
import type { OnObjectChange } from '../../engine/backend.ts';
import { PendingWrites } from './pending-writes.ts';
import { type ObjectKey, parseResourceKey, type ResourceKey, resourceKey } from '../../model/keys.ts';
import { KeyLists } from '../../model/key-lists.ts';
import {
  type KeptContent,
  type KeptIn,
  observe,
  type Observed,
  type ObserveOptions,
  Slot,
} from '../../model/observed.ts';

/** A feed, as one bit of an integer: `Slot.feeds` is the sum of the feeds that confirm an object. */
type FeedBit = number;

/** The feed of own writes. It confirms an object until a watch brings the object or its deletion, but 20 s at most. */
const OWN_WRITES: FeedBit = 1;

export interface ObjectIndexOptions {
  readonly clock?: Clock;
  /** Called if no watch has brought an own write of `sinceMs` ago: a watch is dead, or no watch covers the object. */
  readonly onLate?: ((sinceMs: number) => void) | undefined;
  /** Called if the server shows an older version of an object than before: its etcd was restored from a backup. */
  readonly onRollback?: (key: ObjectKey) => void;
  /** @see ObserveOptions.isRead */
  readonly isRead?: ObserveOptions['isRead'];
  /** @see Kind.isCustom */
  readonly isCustom?: boolean | undefined;
}

export class ObjectIndex {
  readonly cluster: string;
  readonly kind: string;
  readonly #onChange: OnObjectChange;
  readonly #namespaces = new Map<string, Namespace>();
  readonly #observing: ObserveOptions & { readonly lists: KeyLists };
  readonly #pendingWrites: PendingWrites;
  readonly #onRollback: (key: ObjectKey) => void;
  readonly #running = new Map<string, Set<Running>>();
  #nextBit: FeedBit = 2;

  constructor(cluster: string, kind: string, onChange: OnObjectChange, options: ObjectIndexOptions = {}) {
    this.cluster = cluster;
    this.kind = kind;
    this.#onChange = onChange;
    this.#observing = { lists: new KeyLists(), isRead: options.isRead, isCustom: options.isCustom };
    this.#onRollback = options.onRollback ?? (() => undefined);
    this.#pendingWrites = new PendingWrites({
      clock: options.clock ?? systemClock,
      onLate: (sinceMs) => options.onLate?.(sinceMs),
      onGivenUp: (key) => {
        const [namespace = '', name = ''] = key.split('/');
        this.#withdraw(OWN_WRITES, namespace, name);
      },
    });
  }

  get(namespace: string, name: string): Slot | undefined {
    return this.#namespaces.get(namespace)?.slots.get(name);
  }

  /** As `get`, by key. */
  find(key: ResourceKey): Slot | undefined {
    const { namespace, name } = parseResourceKey(key);
    return this.get(namespace, name);
  }

  *keys(): Iterable<ObjectKey> {
    for (const [namespace, { slots }] of this.#namespaces) {
      for (const name of slots.keys()) yield resourceKey(this.cluster, this.kind, namespace, name);
    }
  }

  /**
   * Must be called before a request whose response will be stored. If a watch reports a deletion before the response
   * arrives, the response does not bring the object back.
   * @param own whether Keyferry writes: then the change that the response shows is its own
   */
  beginRequest(target: ObjectKey, own = false): RunningRequest {
    const { namespace, name } = parseResourceKey(target);
    const key = `${namespace}/${name}`;
    const request: Running = { deleted: undefined };
    const running = this.#running.get(key) ?? new Set();
    this.#running.set(key, running.add(request));
    return {
      storeResponse: (meta) => {
        const { deleted } = request;
        if (deleted === undefined || isOlder(deleted, meta.resourceVersion)) this.#put(OWN_WRITES, meta, own);
        const record = this.get(namespace, name);
        return record?.resourceVersion === meta.resourceVersion ? record : observe(meta, this.#observing);
      },
      [Symbol.dispose]: () => {
        running.delete(request);
        if (running.size === 0 && this.#running.get(key) === running) this.#running.delete(key);
      },
    };
  }

  /** Stops waiting for watches to bring own writes. */
  stop(): void {
    this.#pendingWrites.stop();
  }

  /** Creates the feed of one watch. @param accepts whether an object is relevant; default: all objects are */
  feed(accepts?: (meta: ObjectMeta) => boolean): ObjectFeed {
    const bit = this.#nextBit;
    // Each feed is a bit of a 32-bit integer. Few are needed: single-object watches share a feed (object-watches.ts).
    if (bit > 2 ** 30) throw new RangeError('too many feeds on one index');
    this.#nextBit *= 2;
    /** If the watch brought an object last in an older version than the index: the version in the index. By path. */
    const older = new Map<string, string>();
    const sink: ObjectFeed['sink'] = {
      upsert: ({ metadata }, content) => {
        const { namespace = '', name } = metadata;
        this.#noteOlder(metadata, older);
        if (accepts === undefined || accepts(metadata)) {
          this.#put(bit, metadata, false, content);
          return true;
        }
        this.#withdraw(bit, namespace, name);
        // The watcher must remember the key if another feed or a running request has the object: when the object is
        // missing in the next list, both must learn this.
        return this.get(namespace, name) !== undefined || this.#running.has(`${namespace}/${name}`);
      },
      remove: ({ metadata }: KubeObject) => {
        const { namespace = '', name, uid, resourceVersion } = metadata;
        this.#noteDeletion(`${namespace}/${name}`, resourceVersion);
        const record = this.get(namespace, name);
        // Keyferry may have written the object after this event: then the object is not gone.
        const isGone = record !== undefined && !isOlder(resourceVersion, record.resourceVersion);
        this.#withdraw(bit, namespace, name, uid, isGone);
      },
      prune: (keys, resourceVersion, only) => {
        this.#checkForRollback(older, keys, resourceVersion);
        const isListed = (key: string): boolean => only === undefined || key.startsWith(`${only}/`);
        for (const key of this.#running.keys())
          if (isListed(key) && !keys.has(key)) this.#noteDeletion(key, resourceVersion);
        for (const [namespace, { slots }] of this.#namespaces) {
          if (only !== undefined && namespace !== only) continue;
          for (const [name, slot] of slots) {
            if (keys.has(`${namespace}/${name}`)) continue;
            if (isOlder(resourceVersion, slot.resourceVersion))
              this.#awaitConfirmation(bit, slot, `${namespace}/${name}`);
            else if ((slot.feeds & (bit | OWN_WRITES)) !== 0) this.#withdraw(bit, namespace, name, undefined, true);
          }
        }
      },
    };
    return {
      sink,
      listed: (keys, resourceVersion) => {
        this.#checkForRollback(older, keys, resourceVersion);
      },
      withdraw: (namespace, name, resourceVersion) => {
        const record = this.get(namespace, name);
        if (record === undefined) return;
        const isGone = resourceVersion !== undefined && !isOlder(resourceVersion, record.resourceVersion);
        this.#withdraw(bit, namespace, name, undefined, isGone);
      },
    };
  }

  #noteOlder({ namespace = '', name, uid, resourceVersion }: ObjectMeta, older: Map<string, string>): void {
    const record = this.get(namespace, name);
    if (record?.uid === uid && isOlder(resourceVersion, record.resourceVersion))
      older.set(`${namespace}/${name}`, record.resourceVersion);
    else if (older.size > 0) older.delete(`${namespace}/${name}`);
  }

  /**
   * Checks a complete list in which some objects are older than in the index. If the version in the index is newer than
   * the list, it was written after the list. Otherwise the list should have had it: etcd was restored from a backup.
   */
  #checkForRollback(older: Map<string, string>, keys: ReadonlySet<string>, resourceVersion: string): void {
    for (const [path, known] of older) {
      if (!keys.has(path)) continue;
      older.delete(path);
      const [namespace = '', name = ''] = path.split('/');
      if (!isOlder(resourceVersion, known)) this.#onRollback(this.#key(namespace, name));
    }
  }

  #noteDeletion(key: string, version: string): void {
    for (const request of this.#running.get(key) ?? []) {
      if (request.deleted === undefined || isOlder(request.deleted, version)) request.deleted = version;
    }
  }

  #put(bit: FeedBit, meta: ObjectMeta, own: boolean, content?: KeptContent): void {
    const { namespace = '' } = meta;
    const path = `${namespace}/${meta.name}`;
    const there = getOrCreate(this.#namespaces, namespace, () => {
      return { name: namespace, lists: this.#observing.lists, slots: new Map() };
    });
    const before = there.slots.get(meta.name);
    if (before === undefined) {
      const slot = this.#set(there, meta, bit, content);
      if (bit === OWN_WRITES) this.#pendingWrites.expect(path);
      this.#onChange(this.#key(namespace, meta.name), undefined, slot, own);
      return;
    }
    const stale = isOlder(meta.resourceVersion, before.resourceVersion);
    // A late event of an earlier object with the same name confirms nothing.
    if (stale && before.uid !== meta.uid) return;
    const isNew = !stale && before.resourceVersion !== meta.resourceVersion;
    if (bit !== OWN_WRITES) {
      before.feeds |= bit;
      // A version older than an own write does not show that the watch has brought the write.
      if (!stale) this.#settle(before, path);
    } else if (isNew) {
      before.feeds |= OWN_WRITES;
      this.#pendingWrites.expect(path);
    }
    if (!isNew) {
      if (!stale && content !== undefined) before.content = content;
      return;
    }
    // The other feeds have confirmed only the earlier object with the same name.
    const isSame = before.uid === meta.uid;
    const after = this.#set(there, meta, isSame ? before.feeds : bit, content ?? (isSame ? before.content : undefined));
    this.#onChange(this.#key(namespace, meta.name), before, after, own);
  }

  #set(there: Namespace, meta: ObjectMeta, feeds: FeedBit, content: KeptContent | undefined): Slot {
    const name = there.lists.text(meta.name);
    const slot = new Slot(meta, this.#observing, there, name, content);
    slot.feeds = feeds;
    there.slots.set(name, slot);
    return slot;
  }

  /**
   * Handles an object that a list lacks, and that is newer than the list. The watch may bring it soon. Until then it
   * counts as an own write, which has a time limit.
   */
  #awaitConfirmation(bit: FeedBit, slot: Slot, path: string): void {
    if ((slot.feeds & bit) === 0) return;
    slot.feeds &= ~bit;
    if (slot.feeds !== 0) return;
    slot.feeds = OWN_WRITES;
    this.#pendingWrites.expect(path);
  }

  #settle(slot: Slot, path: string): void {
    slot.feeds &= ~OWN_WRITES;
    this.#pendingWrites.arrived(path);
  }

  /**
   * Ends the confirmation of an object by a feed. A record that no feed confirms is removed.
   * @param uid uid of the deleted object: a newer object with the same name stays
   * @param isGone whether the deletion is newer than own writes, which then no longer confirm the object either
   */
  #withdraw(bit: FeedBit, namespace: string, name: string, uid?: string, isGone = false): void {
    const slots = this.#namespaces.get(namespace)?.slots;
    const slot = slots?.get(name);
    if (slots === undefined || slot === undefined) return;
    if (uid !== undefined && slot.uid !== uid) return;
    slot.feeds &= ~bit;
    if (isGone) this.#settle(slot, `${namespace}/${name}`);
    if (slot.feeds !== 0) return;
    slots.delete(name);
    if (slots.size === 0) this.#namespaces.delete(namespace);
    this.#onChange(this.#key(namespace, name), slot, undefined);
  }

  #key(namespace: string, name: string): ObjectKey {
    return resourceKey(this.cluster, this.kind, namespace, name);
  }
}

interface Namespace extends KeptIn {
  /** The objects of the namespace, by name. */
  readonly slots: Map<string, Slot>;
}

interface Running {
  /** The version in which a watch reported the object as deleted or no longer matching; `undefined`: none did. */
  deleted: string | undefined;
}

export interface RunningRequest extends Disposable {
  /** Stores the metadata of a response if they are not out of date. @returns the metadata that Keyferry keeps */
  storeResponse(meta: ObjectMeta): Observed;
}

export interface ObjectFeed {
  readonly sink: Omit<WatchSink, 'upsert'> & {
    /** As `WatchSink.upsert`. @param content the object's content, if the watch brings objects with their data */
    upsert(object: KubeObject, content?: KeptContent): boolean;
  };
  /** Called when a list of only some objects is complete. @param keys `namespace/name` of each listed object */
  listed(keys: ReadonlySet<string>, resourceVersion: string): void;
  /**
   * Ends the confirmation of an object by this feed.
   * @param resourceVersion version of a list that lacks the object: older own writes then no longer confirm it either
   */
  withdraw(namespace: string, name: string, resourceVersion?: string): void;
}
