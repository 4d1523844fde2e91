/**
 * A client of one API server: one request, or one stream.
 *
 * `HttpKubeApi` (http.ts) implements it, and `fenced` adds the check of the Lease to writes.
 */

/** Kubernetes object metadata, as far as Keyferry reads it. */
export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly creationTimestamp: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly OwnerReference[];
  readonly managedFields?: readonly ManagedFieldsEntry[];
}

/** One entry of `metadata.ownerReferences`. The garbage collector deletes an object whose owners are gone. */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** One entry of `metadata.managedFields`: the fields that a manager set last, without their values. */
export interface ManagedFieldsEntry {
  readonly manager?: string;
  readonly operation?: string;
  readonly subresource?: string;
  /** Of its last write, RFC 3339. */
  readonly time?: string;
  readonly fieldsV1?: Readonly<Record<string, unknown>>;
}

/** Any object of the API. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

export type HttpMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface KubeRequest {
  readonly method: HttpMethod;
  /** Path below the server's URL, already percent-encoded: `/api/v1/namespaces/default/secrets/x`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as it is; pieces are written one after another so that a secret value need not be joined into a string. */
  readonly body?: string | Uint8Array | readonly Uint8Array[];
  /** Default `application/json` where there is a body. */
  readonly contentType?: string;
  /** Default `application/json`. `METADATA_ONLY` (below) requests metadata alone. */
  readonly accept?: string | undefined;
  /** Requests a compressed answer. The API server compresses what is larger than 128 KiB, but no streams. */
  readonly compressed?: boolean;
  /** Largest answer, uncompressed, in bytes. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
  /** Time limit of the whole call in ms, waiting for a free connection included. Default 30,000. For a stream: until the response's head. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called right before the request is sent. If it throws, nothing is sent and the call fails with that error. */
  readonly beforeSending?: () => void;
}

export interface KubeResponse {
  readonly status: number;
  /** The body's bytes; may hold secret values, so it is parsed where it is needed and dropped. */
  readonly body: Buffer;
}

/** A response that stays open: a watch. */
export interface KubeStream {
  /**
   * Chunks as they arrive, to be iterated once; ends when the server ends the response or after `close`, throws `ConnectionError`
   * when the connection breaks and the signal's reason when that is aborted.
   */
  readonly chunks: AsyncIterable<Buffer>;
  /** Ends the connection. Safe to call more than once. */
  close(): void;
}

export interface KubeApi {
  /** The cluster's name in logs, metrics and status: `local`, `tenant`, … */
  readonly cluster: string;
  /**
   * One call. A Retry-After (429, 503) holds all later calls of this client. The call itself is not repeated: the caller's queue
   * does that. A call whose time limit ends before the hold is refused at once, with the same status and the rest of the wait as
   * `retryAfterMs`. While the server does not answer, one call at a time is sent, and the others wait within their time limits.
   * Calls that must not wait for others (a Lease) need a client of their own.
   * @throws ApiError for any status outside 200–299, `ConnectionError` without an answer, `CredentialError` (a ConnectionError)
   *   without credentials, and the signal's reason on abort.
   */
  request(request: KubeRequest): Promise<KubeResponse>;
  /** As `request`, but hands the body out while it arrives. Uses its own connection, outside the pool of `request`. */
  stream(request: KubeRequest): Promise<KubeStream>;
}

/** `Accept` for an object's metadata without its content, as the API server serves it for every kind. */
export const METADATA_ONLY = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';

const NUMBER = /^(?:0|[1-9]\d*)$/;

/**
 * Compares resource versions. Those of one cluster can be compared as numbers (KEP-5504; true of every etcd-backed server before
 * it). Some servers count in nanoseconds: more digits than a JavaScript number has.
 * @returns `false` also where they are not numbers: then the last one received counts
 */
export function isOlder(version: string, than: string): boolean {
  if (version.length === than.length ? version >= than : version.length > than.length) return false;
  return NUMBER.test(version) && NUMBER.test(than);
}
