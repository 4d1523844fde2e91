/** What a watch follows, and how it is. */

/** The collection that a watch follows. */
export interface WatchTarget {
  /** Plural of its kind: `secretmirrors`, `secrets`. */
  readonly collection: string;
  /** Which of its objects, for logs and metrics: `copies`. `undefined`: all. */
  readonly scope?: string | undefined;
  /** Path of the collection: `/api/v1/secrets`. */
  readonly path: string;
  /** The sink has objects of other namespaces, too: those are not pruned. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** `true`: only metadata is transferred. */
  readonly metadataOnly: boolean;
  /**
   * For collections that may be very large: they are listed in pages, which the API server compresses to a tenth, and not as a stream,
   * which it does not compress. For small collections the stream is better: it is one request, and becomes the watch.
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
  /** The first list has been complete once. */
  readonly synced: boolean;
  /** A stream is open, and the list before it is complete: the sink is up to date. */
  readonly connected: boolean;
  /** Ms since the last byte, or since the connection was lost; the bytes of a list under way do not count. */
  readonly silentMs: number;
  /** Why it is not connected. */
  readonly error?: string | undefined;
  /** The error itself. */
  readonly cause?: Error | undefined;
  /** How the user can fix its failure. */
  readonly advice?: string | undefined;
  /** The process is ready without this watch: its API is not installed, or it concerns only what reports the failure. */
  readonly isExcused?: boolean;
}
