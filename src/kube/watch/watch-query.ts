/** What a watch or list asks the server for, beside where it is to begin. */
import { METADATA_ONLY } from '../api.ts';

export interface WatchTarget {
  /** Short, for logs and metrics: `secretmirrors`, `secrets/copies`. */
  readonly name: string;
  /** Path of the collection: `/api/v1/secrets`. */
  readonly path: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** `true`: metadata alone travels. */
  readonly metadataOnly: boolean;
  /**
   * There may be very many: they are listed in pages, which the API server compresses to a tenth, and not as a stream, which it does not.
   * Of few objects the stream is better: it is one request, and goes on as the watch.
   */
  readonly inPages?: boolean;
}

/** `list`: for a list in pages instead of a stream. */
export function acceptOf(target: WatchTarget, list: '' | 'List' = ''): string {
  return target.metadataOnly
    ? METADATA_ONLY.replace('PartialObjectMetadata', `PartialObjectMetadata${list}`)
    : 'application/json';
}

export function selectorsOf(target: WatchTarget): Record<string, string | undefined> {
  return { labelSelector: target.labelSelector, fieldSelector: target.fieldSelector };
}
