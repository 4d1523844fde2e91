/** The collection that a watch follows. */
export interface WatchTarget {
  /** Short name for logs and metrics: `secretmirrors`, `secrets/copies`. */
  readonly name: string;
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
