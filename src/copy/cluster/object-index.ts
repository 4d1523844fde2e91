/**
 * What is known of the objects of one kind in one cluster, fed by several watches and by our own writes.
 *
 * No single watch sees every object that matters (one selects our copies by label, others follow single sources), so a record
 * remembers which feeds vouch for it. Invariants:
 * - a record is there as long as at least one feed vouches for it, or a write of ours does that is still to come back;
 * - it never goes back to an older resourceVersion of the same object;
 * - "not here" means *absent* only for what a complete feed covers; else it means *unknown*.
 */
import type { KubeObject, ObjectMeta } from '../../kube/api.ts';
import { isOlder } from '../../kube/resource-version.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import { type Clock, systemClock } from '../../runtime/clock.ts';
import { PendingWrites } from './pending-writes.ts';
import { resourceKey, type ResourceKey } from '../model/keys.ts';
import { KeyLists } from '../model/key-lists.ts';
import { observe, type Observed, type ObserveOptions } from '../model/observed.ts';

/** A bit that stands for one feed. */
type FeedBit = number;

/** Our own writes vouch for an object until a watch brings it, or brings its deletion, or that was waited for too long. */
const SELF: FeedBit = 1;

export interface ObjectIndexOptions {
  readonly clock?: Clock;
  /** Writes of ours of `sinceMs` ago have not been brought by any watch: one of them is dead, or none covers the object. */
  readonly onLate?: ((sinceMs: number) => void) | undefined;
  /** The server says that an object is older than it was: a backup has taken its place. */
  readonly onRollback?: (key: ResourceKey) => void;
  /** @see ObserveOptions.isRead */
  readonly isRead?: ObserveOptions['isRead'] | undefined;
}

interface Slot {
  record: Observed;
  feeds: FeedBit;
}

/** `before`/`after` are undefined where the object was/is not known. `initial`: seen in a first list. */
export type OnChange = (
  key: ResourceKey,
  before: Observed | undefined,
  after: Observed | undefined,
  initial: boolean,
) => void;

export class ObjectIndex {
  readonly cluster: string;
  readonly kind: string;
  readonly #onChange: OnChange;
  readonly #slots = new Map<string, Map<string, Slot>>();
  readonly #observing: ObserveOptions;
  readonly #pendingWrites: PendingWrites;
  readonly #onRollback: (key: ResourceKey) => void;
  readonly #expected = new Map<string, Set<Departure>>();
  #nextBit: FeedBit = 2;
  #size = 0;

  constructor(cluster: string, kind: string, onChange: OnChange, options: ObjectIndexOptions = {}) {
    this.cluster = cluster;
    this.kind = kind;
    this.#onChange = onChange;
    this.#observing = { lists: new KeyLists(), ...(options.isRead === undefined ? {} : { isRead: options.isRead }) };
    this.#onRollback = options.onRollback ?? (() => undefined);
    this.#pendingWrites = new PendingWrites({
      clock: options.clock ?? systemClock,
      onLate: (sinceMs) => options.onLate?.(sinceMs),
      onGivenUp: (key) => {
        const [namespace = '', name = ''] = key.split('/');
        this.#withdraw(SELF, namespace, name);
      },
    });
  }

  get size(): number {
    return this.#size;
  }

  get(namespace: string, name: string): Observed | undefined {
    return this.#slots.get(namespace)?.get(name)?.record;
  }

  *keys(): Iterable<ResourceKey> {
    for (const [namespace, names] of this.#slots) {
      for (const name of names.keys()) yield resourceKey(this.cluster, this.kind, namespace, name);
    }
  }

  /**
   * To be called before a request about one object whose answer will be taken in. A watch may be faster than the answer: what it
   * says meanwhile of the object's going is not undone by it.
   */
  expect(namespace: string, name: string): Expectation {
    const key = `${namespace}/${name}`;
    const departure: Departure = { version: undefined };
    const expected = this.#expected.get(key) ?? new Set();
    this.#expected.set(key, expected.add(departure));
    return {
      learn: (meta) => {
        const { version } = departure;
        if (version === undefined || isOlder(version, meta.resourceVersion)) this.#put(SELF, meta, false);
      },
      [Symbol.dispose]: () => {
        expected.delete(departure);
        if (expected.size === 0 && this.#expected.get(key) === expected) this.#expected.delete(key);
      },
    };
  }

  /** Takes in a newer state of an object that some feed vouches for; of any other it is no news. */
  refresh(meta: ObjectMeta): void {
    if (this.get(meta.namespace ?? '', meta.name) !== undefined) this.#put(0, meta, false);
  }

  /** Ends the wait for writes of ours to come back. */
  stop(): void {
    this.#pendingWrites.stop();
  }

  /** A sink for one watch. `accepts` says whether an object matters; without it all do. */
  feed(accepts?: (meta: ObjectMeta) => boolean): ObjectFeed {
    const bit = this.#newBit();
    /** What the list under way says is older than it is known to be, and the version that is known. */
    const surpassed = new Map<string, string>();
    const sink: WatchSink = {
      upsert: ({ metadata }, initial) => {
        const { namespace = '', name } = metadata;
        if (initial) this.#compare(metadata, surpassed);
        if (accepts === undefined || accepts(metadata)) {
          this.#put(bit, metadata, initial);
          return true;
        }
        this.#withdraw(bit, namespace, name);
        // Of what others vouch for, or an answer is about to, this list has something to say too.
        return this.get(namespace, name) !== undefined || this.#expected.has(`${namespace}/${name}`);
      },
      remove: ({ metadata }: KubeObject) => {
        this.#departed(`${metadata.namespace ?? ''}/${metadata.name}`, metadata.resourceVersion);
        const { namespace = '', name, uid, resourceVersion } = metadata;
        const record = this.get(namespace, name);
        // A write of ours may be newer than what the watch says of the object's going from it.
        const refuted = record !== undefined && !isOlder(resourceVersion, record.resourceVersion);
        this.#withdraw(bit, namespace, name, uid, refuted);
      },
      prune: (keys, resourceVersion) => {
        this.#judge(surpassed, keys, resourceVersion);
        for (const key of this.#expected.keys()) if (!keys.has(key)) this.#departed(key, resourceVersion);
        for (const [namespace, names] of this.#slots) {
          for (const [name, slot] of names) {
            if (keys.has(`${namespace}/${name}`)) continue;
            if (isOlder(resourceVersion, slot.record.resourceVersion)) this.#doubt(bit, slot, `${namespace}/${name}`);
            else if ((slot.feeds & (bit | SELF)) !== 0) this.#withdraw(bit, namespace, name, undefined, true);
          }
        }
      },
    };
    return {
      sink,
      listed: (keys, resourceVersion) => {
        this.#judge(surpassed, keys, resourceVersion);
      },
      withdraw: (namespace, name, resourceVersion) => {
        const record = this.get(namespace, name);
        if (record === undefined) return;
        const refuted = resourceVersion !== undefined && !isOlder(resourceVersion, record.resourceVersion);
        this.#withdraw(bit, namespace, name, undefined, refuted);
      },
    };
  }

  #compare({ namespace = '', name, uid, resourceVersion }: ObjectMeta, surpassed: Map<string, string>): void {
    const record = this.get(namespace, name);
    const path = `${namespace}/${name}`;
    if (record?.uid === uid && isOlder(resourceVersion, record.resourceVersion))
      surpassed.set(path, record.resourceVersion);
    else if (surpassed.size > 0) surpassed.delete(path);
  }

  /**
   * A list is complete. What was written after it is newer than it; but what it should have had, and had only as it was before, says
   * that the server has gone back.
   */
  #judge(surpassed: Map<string, string>, keys: ReadonlySet<string>, resourceVersion: string): void {
    for (const [path, known] of surpassed) {
      if (!keys.has(path)) continue;
      surpassed.delete(path);
      const [namespace = '', name = ''] = path.split('/');
      if (!isOlder(resourceVersion, known)) this.#onRollback(this.#key(namespace, name));
    }
  }

  #departed(key: string, version: string): void {
    for (const departure of this.#expected.get(key) ?? []) {
      if (departure.version === undefined || isOlder(departure.version, version)) departure.version = version;
    }
  }

  #newBit(): FeedBit {
    const bit = this.#nextBit;
    // Bits of a 32-bit integer; single watches share one feed (object-watches.ts), so a handful is in use.
    if (bit > 2 ** 30) throw new RangeError('too many feeds on one index');
    this.#nextBit *= 2;
    return bit;
  }

  #put(bit: FeedBit, meta: ObjectMeta, initial: boolean): void {
    const namespace = meta.namespace ?? '';
    const path = `${namespace}/${meta.name}`;
    const slot = this.#slots.get(namespace)?.get(meta.name);
    if (slot === undefined) {
      this.#add(bit, namespace, meta, initial);
      return;
    }
    const before = slot.record;
    const stale = isOlder(meta.resourceVersion, before.resourceVersion);
    // Late word of an earlier object of this name vouches for nothing.
    if (stale && before.uid !== meta.uid) return;
    const news = !stale && before.resourceVersion !== meta.resourceVersion;
    if (bit !== SELF) {
      slot.feeds |= bit;
      // Word that is older than our write does not say that the watch has brought it.
      if (bit !== 0 && !stale) this.#settle(slot, path);
    } else if (news) {
      slot.feeds |= SELF;
      this.#pendingWrites.expect(path);
    }
    if (!news) return;
    if (before.uid !== meta.uid) this.#renew(slot, bit, path);
    slot.record = observe(meta, this.#observing);
    this.#onChange(this.#key(namespace, meta.name), before, slot.record, initial);
  }

  #add(bit: FeedBit, namespace: string, meta: ObjectMeta, initial: boolean): void {
    const record = observe(meta, this.#observing);
    let names = this.#slots.get(namespace);
    if (names === undefined) this.#slots.set(namespace, (names = new Map()));
    names.set(meta.name, { record, feeds: bit });
    this.#size += 1;
    if (bit === SELF) this.#pendingWrites.expect(`${namespace}/${meta.name}`);
    this.#onChange(this.#key(namespace, meta.name), undefined, record, initial);
  }

  /** Another object under the old name: whoever vouched for the old one has not seen this one yet. */
  #renew(slot: Slot, bit: FeedBit, path: string): void {
    slot.feeds = bit === 0 ? SELF : bit;
    if (slot.feeds === SELF) this.#pendingWrites.expect(path);
  }

  /**
   * A list does not name what is known to be newer than the list. That does not refute it, but if it is for this feed at all, the
   * watch is still to bring it.
   */
  #doubt(bit: FeedBit, slot: Slot, path: string): void {
    if ((slot.feeds & bit) === 0) return;
    slot.feeds &= ~bit;
    if (slot.feeds !== 0) return;
    slot.feeds = SELF;
    this.#pendingWrites.expect(path);
  }

  #settle(slot: Slot, path: string): void {
    slot.feeds &= ~SELF;
    this.#pendingWrites.arrived(path);
  }

  /**
   * @param uid of the object that is gone: a newer object of the same name stays
   * @param gone it is gone for our own writes too
   */
  #withdraw(bit: FeedBit, namespace: string, name: string, uid?: string, gone = false): void {
    const names = this.#slots.get(namespace);
    const slot = names?.get(name);
    if (names === undefined || slot === undefined) return;
    if (uid !== undefined && slot.record.uid !== uid) return;
    slot.feeds &= ~bit;
    if (gone) this.#settle(slot, `${namespace}/${name}`);
    if (slot.feeds !== 0) return;
    names.delete(name);
    if (names.size === 0) this.#slots.delete(namespace);
    this.#size -= 1;
    this.#onChange(this.#key(namespace, name), slot.record, undefined, false);
  }

  #key(namespace: string, name: string): ResourceKey {
    return resourceKey(this.cluster, this.kind, namespace, name);
  }
}

/** The version at which a watch said that the object is not there, or not for it, if it did. */
interface Departure {
  version: string | undefined;
}

export interface Expectation extends Disposable {
  /** Takes in what the request answered, unless it is out of date. */
  learn(meta: ObjectMeta): void;
}

export interface ObjectFeed {
  readonly sink: WatchSink;
  /** A list of some objects only is complete, and named these. */
  listed(keys: ReadonlySet<string>, resourceVersion: string): void;
  /**
   * This feed no longer vouches for the object.
   * @param resourceVersion of a list that did not name it: then no older write of ours vouches for it either
   */
  withdraw(namespace: string, name: string, resourceVersion?: string): void;
}
