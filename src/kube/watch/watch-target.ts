/** Describes a watch: the collection that it follows, and its health. */

/** The collection that a watch follows. */
export interface WatchTarget {
  /** Plural of its kind: `secretmirrors`, `secrets`. */
  readonly collection: string;
  /** Names the watched part of the collection in logs and metrics: `copies`. `undefined`: all of it. */
  readonly scope?: string | undefined;
  /** Path of the collection: `/api/v1/secrets`. */
  readonly path: string;
  /** Set if only this namespace is watched: then its lists prune no objects of other namespaces. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** `true`: only metadata is transferred. */
  readonly metadataOnly: boolean;
  /**
   * Lists the collection in pages, which the API server compresses to a tenth, and not as a stream, which it does not
   * compress: for very large collections. For small ones a stream is better: one request lists and then watches.
   */
  readonly inPages?: boolean;
}

/** The name of a watch in logs and reports: `secretmirrors`, `secrets/copies`. */
export function watchName({ collection, scope }: Pick<WatchTarget, 'collection' | 'scope'>): string {
  return scope === undefined ? collection : `${collection}/${scope}`;
}

/** The state of a watch. */
export interface WatchHealth extends Pick<WatchTarget, 'collection' | 'scope'> {
  /** @see watchName */
  readonly name: string;
  /** Whether a list was complete at least once. */
  readonly synced: boolean;
  /** Whether a stream is open, and the list before it is complete: then the sink is up to date. */
  readonly connected: boolean;
  /** Ms since the last byte, or since the connection was lost; the bytes of a list under way do not count. */
  readonly silentMs: number;
  /** Why it is not connected. */
  readonly error?: string | undefined;
  /** The error itself. */
  readonly cause?: Error | undefined;
  /** How the user can fix its failure. */
  readonly advice?: string | undefined;
  /** Whether the process is ready without this watch: the API is not installed, or the rules report the failure. */
  readonly isExcused?: boolean;
}
