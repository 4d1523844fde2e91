/**
 * The interface of a client of one API server, which sends requests and opens streams. `HttpKubeApi` (http.ts)
 * implements it, and `fenced` adds the check of the Lease to writes.
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
  /** Time of the manager's last write, RFC 3339. */
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
  /** Sent unchanged, and piece by piece, so that a secret value need not become a part of a string. */
  readonly body?: string | Uint8Array | readonly Uint8Array[];
  /** Default `application/json` where there is a body. */
  readonly contentType?: string;
  /** Default `application/json`. `METADATA_ONLY` (below) requests metadata alone. */
  readonly accept?: string | undefined;
  /** Requests a compressed answer. The API server compresses answers above 128 KiB, but no streams. */
  readonly compressed?: boolean;
  /** Largest answer, uncompressed, in bytes. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
  /** Limit of the call and of its wait for a connection, ms. In a stream it ends with the head. Default 30,000. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called right before the request is sent. If it throws, nothing is sent and the call fails with that error. */
  readonly beforeSending?: () => void;
}

export interface KubeResponse {
  readonly status: number;
  /** May hold secret values, so callers parse it at once and drop it. */
  readonly body: Buffer;
}

/** A response that stays open: a watch. */
export interface KubeStream {
  /**
   * Chunks as they arrive, to be iterated once. Ends when the server ends the response, or after `close`. Throws
   * `ConnectionError` if the connection breaks, and the signal's reason if the signal is aborted.
   */
  readonly chunks: AsyncIterable<Buffer>;
  /** Ends the connection. Safe to call more than once. */
  close(): void;
}

export interface KubeApi {
  /** The cluster's name in logs, metrics and status: `local`, `tenant`, … */
  readonly cluster: string;
  /**
   * Sends one call. It is not repeated after a failure: the caller's queue does that. After a Retry-After (429, 500,
   * 503) the client is on hold, and all later calls wait. A call whose time limit ends before the hold is refused at
   * once, with the same status and the rest of the wait as `retryAfterMs`. While the server does not answer, one call
   * at a time is sent, and the others wait within their time limits. Calls that must not wait for others, as those of
   * the Lease, need a client of their own.
   * @throws ApiError for any status outside 200–299, `ConnectionError` without an answer, `CredentialError` (a
   *   ConnectionError) without credentials, and the signal's reason on abort.
   */
  request(request: KubeRequest): Promise<KubeResponse>;
  /** As `request`, but hands the body out while it arrives. Uses its own connection, outside the pool of `request`. */
  stream(request: KubeRequest): Promise<KubeStream>;
}

/** `Accept` for an object's metadata without its content, as the API server serves it for every kind. */
export const METADATA_ONLY = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';

const NUMBER = /^(?:0|[1-9]\d*)$/;

/**
 * Compares resource versions. Those of one cluster can be compared as numbers (KEP-5504; true of every etcd-backed
 * server before it). Some servers count in nanoseconds: more digits than a JavaScript number has.
 * @returns `false` also if one is not a number: then the version that arrived last counts
 */
export function isOlder(version: string, than: string): boolean {
  if (version.length === than.length ? version >= than : version.length > than.length) return false;
  return NUMBER.test(version) && NUMBER.test(than);
}
