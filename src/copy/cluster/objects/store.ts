/**
 * The objects of one kind in one cluster: the index of their metadata, the watches that fill the index, and a small
 * cache of contents by version. No other file reads the data of objects.
 */
import { isDeepStrictEqual } from 'node:util';
import { ByteCache } from '../../../runtime/maps.ts';
import { SingleFlight } from '../../../runtime/queue/single-flight.ts';
import { type KubeApi, type KubeObject, type ObjectMeta, isOlder } from '../../../kube/api.ts';
import { ConnectionError } from '../../../kube/errors.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';
import type { OnObjectChange, SourceProvider } from '../../engine/backend.ts';
import { because } from '../../model/cause.ts';
import { type SourceView, sourceView } from '../../model/claim.ts';
import { Content, type Fingerprint } from '../../model/content.ts';
import { ObjectWatches, type ObjectWatchesOptions } from '../watch/object-watches.ts';
import { KeyLists } from '../../model/key-lists.ts';
import {
  contentVersion,
  type KeptContent,
  type Observed,
  revisionOf,
  versionAt,
  versionOf,
} from '../../model/observed.ts';
import { parseResourceKey, resourceKey, type ObjectKey } from '../../model/keys.ts';
import { type Kind, objectPath } from '../../model/kind.ts';
import type { Held } from '../../plan/facts.ts';
import { getObject } from './get-object.ts';
import { ObjectIndex, type ObjectIndexOptions } from './object-index.ts';

/** Size of the cache of contents, bytes. It keeps a source's content until its copies are written. */
const CONTENT_CACHE_BYTES = 4 * 1024 * 1024;

export interface KubeStoreOptions
  extends Omit<ObjectWatchesOptions, 'index'>, Omit<ObjectIndexOptions, 'clock' | 'isCustom'> {
  readonly onChange: OnObjectChange;
}

type WholeObject = KubeObject & { readonly [field: string]: unknown };

/** Which contents one caller needs of a watch that brings objects with their data. */
export interface ContentUse {
  /** Whether copies of an object will need its values soon. Otherwise only the fingerprint of the object is kept. */
  readonly isSource: (object: KubeObject) => boolean;
  /** The part of an object's status that the index keeps. Default: none. At most one caller of a watch sets this. */
  readonly statusOf?: (object: KubeObject) => object;
}

/** The content of an object at one version. */
export interface StoredContent extends Held, Readonly<Pick<KeptContent, 'immutable' | 'type'>> {}

/** A watch that brings all objects of a namespace or of the cluster with their data. */
export interface CompleteWatch {
  /** `undefined`: the whole cluster. */
  readonly namespace: string | undefined;
  isListed(): boolean;
}

/** The response to a read of one object. */
export interface ReadObject {
  readonly content: Content;
  readonly immutable: boolean;
  readonly metadata: ObjectMeta;
}

export class KubeStore implements SourceProvider {
  readonly kind: Kind;
  readonly api: KubeApi;
  readonly index: ObjectIndex;
  readonly watches: ObjectWatches;
  readonly #onRollback: (key: ObjectKey) => void;
  readonly #contents = new ByteCache<Content>({ maxBytes: CONTENT_CACHE_BYTES });
  readonly #loads = new SingleFlight<ReadObject | undefined>();
  /** For each source that was read: the fingerprint of its last content. */
  readonly #fingerprints = new Map<ObjectKey, Held>();
  readonly #lists = new KeyLists();
  readonly #complete: CompleteWatch[] = [];

  constructor(options: KubeStoreOptions) {
    const { api, kind, onRollback = () => undefined } = options;
    this.kind = kind;
    this.api = api;
    this.#onRollback = onRollback;
    this.index = new ObjectIndex(
      api.cluster,
      kind.kind,
      (key, before, after, own) => {
        // The fingerprint is dropped here, too: nobody calls `unfollow` for an object that is not followed by name.
        if (before !== undefined && after === undefined) this.#forget(key, before);
        options.onChange(key, before, after, own);
      },
      { ...options, isCustom: kind.isCustom },
    );
    this.watches = new ObjectWatches({ ...options, index: this.index });
  }

  get cachedBytes(): number {
    return this.#contents.bytes;
  }

  key(namespace: string, name: string): ObjectKey {
    return resourceKey(this.api.cluster, this.kind.kind, namespace, name);
  }

  /** Follows an object by name. Does nothing if a watch of its whole namespace brings it. @see unfollow */
  follow(key: ObjectKey): void {
    if (this.#covering(key) === undefined) this.watches.follow(key);
  }

  unfollow(key: ObjectKey): void {
    this.watches.unfollow(key);
    this.#fingerprints.delete(key);
  }

  /** If an object is not in the index: whether this shows that it does not exist. */
  isKnown(key: ObjectKey): boolean {
    return this.#covering(key)?.isListed() ?? this.watches.isKnown(key);
  }

  /** The view of a source, from the index: without a request. */
  view(key: ObjectKey): SourceView {
    const view = sourceView(key, this.index.find(key), () => this.isKnown(key));
    const refusal = view.state === 'unknown' ? this.watches.refusalOf(key) : undefined;
    return refusal === undefined
      ? view
      : { state: 'failed', ...because('Forbidden', refusal, 'the operator has no permission to read it') };
  }

  /** The content of an object that an event brought; `undefined` if this event had another version than `observed`. */
  heldIn(key: ObjectKey, observed: Observed): StoredContent | undefined {
    const version = contentVersion(observed);
    const stored = this.#stored(key, version);
    return stored && { version, ...stored };
  }

  /**
   * The sink for a watch of objects with their data. The index gets their metadata and fingerprints.
   * @param uses what each caller of the watch needs; the array grows when a caller is added later
   */
  contentSink(uses: readonly ContentUse[]): WatchSink {
    const { sink } = this.index.feed();
    return {
      ...sink,
      upsert: (object: WholeObject) => {
        const isSource = uses.some((use) => use.isSource(object));
        const status = uses.find(({ statusOf }) => statusOf !== undefined)?.statusOf?.(object);
        return sink.upsert(object, this.#contentIn(object, isSource, status));
      },
    };
  }

  /** Adds a watch: its objects are no longer followed by name, and count as absent if its list lacks them. */
  addCompleteWatch(watch: CompleteWatch): void {
    this.#complete.push(watch);
  }

  #covering(key: ObjectKey): CompleteWatch | undefined {
    if (this.#complete.length === 0) return undefined;
    const { namespace } = parseResourceKey(key);
    return this.#complete.find((watch) => watch.namespace === undefined || watch.namespace === namespace);
  }

  /** The content in an event's object; `undefined`: the event is older than the index. */
  #contentIn(object: WholeObject, isSource: boolean, status?: object): KeptContent | undefined {
    const { namespace = '', name, uid, resourceVersion } = object.metadata;
    const key = this.key(namespace, name);
    const known = this.index.get(namespace, name);
    if (known?.uid === uid && isOlder(resourceVersion, known.resourceVersion)) return undefined;
    const version = versionOf(object.metadata, this.kind);
    const before = known && keptVersion(known);
    if (before === version) {
      const content = known?.content;
      return content === undefined || content.status === status ? content : { ...content, status };
    }
    if (before !== undefined) this.#contents.delete(`${key}@${before}`);
    const content = this.contentOf(object);
    if (isSource) this.#keep(key, content);
    const { digest, keys, type: own } = content.fingerprint;
    const type = this.#lists.text(own);
    const fingerprint = { digest, keys: this.#lists.text(keys), type };
    const revision = revisionOf(object.metadata, this.kind);
    return { revision, fingerprint, immutable: object['immutable'] === true, type, status };
  }

  /** The content that the index keeps of an object, if it is the content at `version`. */
  #stored(key: ObjectKey, version: string): KeptContent | undefined {
    const known = this.index.find(key);
    return known && keptVersion(known) === version ? known.content : undefined;
  }

  #keep(key: ObjectKey, content: Content): void {
    this.#contents.set(`${key}@${content.version}`, content, content.weight);
  }

  /** The content in a response of the server. */
  contentOf(object: WholeObject): Content {
    return Content.ofObject(this.kind, object, versionOf(object.metadata, this.kind));
  }

  /** Saves memory: if the content of a copy has a fingerprint equal to its source's, both share one object. */
  shareFingerprint(key: ObjectKey, fingerprint: Fingerprint): void {
    const content = this.index.find(key)?.content;
    if (content !== undefined && isDeepStrictEqual(content.fingerprint, fingerprint)) content.fingerprint = fingerprint;
  }

  /** The fingerprint of a source at `version` (default: the version in the index); `undefined`: it was not read. */
  fingerprint(key: ObjectKey, version = this.#version(key)): Fingerprint | undefined {
    if (version === undefined) return undefined;
    const read = this.#fingerprints.get(key);
    return this.#stored(key, version)?.fingerprint ?? (read?.version === version ? read.fingerprint : undefined);
  }

  /** The version of an object's content; `undefined`: the object is not in the index. */
  #version(key: ObjectKey): string | undefined {
    const observed = this.index.find(key);
    return observed && contentVersion(observed);
  }

  /**
   * The content of a source at `version` (default: the version in the index, if it has the source) or newer. Calls at
   * the same time share one request, whose response also updates the index.
   * @returns undefined if the source does not exist
   */
  async load(key: ObjectKey, signal?: AbortSignal, version = this.#version(key)): Promise<Content | undefined> {
    const cached = version === undefined ? undefined : this.#contents.get(`${key}@${version}`);
    if (cached !== undefined) {
      // `unfollow` drops the fingerprint, but not the cached content. So the fingerprint is stored again.
      this.#remember(key, cached);
      return cached;
    }
    const read = await this.#loads.run(key, (signal) => this.#readAndLearn(key, signal), signal);
    if (read === undefined) return undefined;
    const { content } = read;
    this.#keep(key, content);
    this.#remember(key, content);
    return content;
  }

  async #readAndLearn(key: ObjectKey, signal: AbortSignal): Promise<ReadObject | undefined> {
    using request = this.index.beginRequest(key);
    const read = await this.read(key, signal);
    if (read !== undefined) request.storeResponse(read.metadata);
    return read;
  }

  /**
   * Reads one object with its content from the server.
   * @throws ConnectionError `EROLLBACK` if the server has an older version than the index, as after an etcd restore
   */
  async read(key: ObjectKey, signal?: AbortSignal): Promise<ReadObject | undefined> {
    const before = this.index.find(key);
    const object = await getObject(this.api, this.kind, key, { signal });
    if (object === undefined) return undefined;
    const { metadata } = object;
    if (before?.uid === metadata.uid && isOlder(metadata.resourceVersion, before.resourceVersion)) {
      this.#onRollback(key);
      const text = 'the server has an older version of the object than before, as after a restore of etcd';
      throw new ConnectionError('EROLLBACK', `GET ${objectPath(this.kind, key)}: ${text}`);
    }
    return {
      content: this.contentOf(object),
      immutable: object['immutable'] === true,
      metadata,
    };
  }

  async stop(): Promise<void> {
    this.index.stop();
    await this.watches.stop();
    this.#contents.clear();
  }

  #forget(key: ObjectKey, gone: Observed): void {
    this.#fingerprints.delete(key);
    const version = keptVersion(gone);
    if (version !== undefined) this.#contents.delete(`${key}@${version}`);
  }

  #remember(key: ObjectKey, content: Content): void {
    const { version, fingerprint } = content;
    // If the object was deleted during the read, nobody would drop the fingerprint later. If the index has the content,
    // the index has its fingerprint, too.
    if (this.index.find(key) === undefined || this.#stored(key, version) !== undefined) return;
    this.#fingerprints.set(key, { version, fingerprint });
  }
}

/** The version of the content that the index keeps of an object. */
function keptVersion({ uid, content }: Observed): string | undefined {
  return content && versionAt(uid, content.revision);
}
