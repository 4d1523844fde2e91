/** Describes a watch: the collection that it follows, and its health. */

/** The collection that a watch follows. */
export interface WatchTarget {
  /** Plural name of the kind: `secretmirrors`, `secrets`. */
  readonly collection: string;
  /** Names the watched part of the collection in logs and metrics: `copies`. `undefined`: the whole collection. */
  readonly scope?: string | undefined;
  /** Path of the collection: `/api/v1/secrets`. */
  readonly path: string;
  /** Set if only this namespace is watched. Its lists then remove no objects of other namespaces from the sink. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** `true`: only the metadata of objects is transferred. */
  readonly metadataOnly: boolean;
}

/** The name of a watch in logs and reports: `secretmirrors`, `secrets/copies`. */
export function watchName({ collection, scope }: Pick<WatchTarget, 'collection' | 'scope'>): string {
  return scope === undefined ? collection : `${collection}/${scope}`;
}

/** The state of a watch. */
export interface WatchHealth extends Pick<WatchTarget, 'collection' | 'scope'> {
  /** @see watchName */
  readonly name: string;
  /** Whether a list has been complete at least one time. */
  readonly synced: boolean;
  /** Whether the list is complete and a stream is open, so that the sink is up to date. */
  readonly connected: boolean;
  /** Ms since the last byte of the open stream, or since the last stream was lost. Bytes of a list do not count. */
  readonly silentMs: number;
  /** Why the watch is not connected. */
  readonly error?: string | undefined;
  /** The error that `error` is the text of. */
  readonly cause?: Error | undefined;
  /** Tells the user how to fix the failure. */
  readonly advice?: string | undefined;
  /** Whether the process is ready without this watch: the API is not installed, or the rules report the failure. */
  readonly isExcused?: boolean;
}
