/**
 * The interface of a client of one API server, which sends requests and opens streams. `HttpKubeApi` (http.ts)
 * implements it.
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

/** One entry of `metadata.managedFields`: the fields that the manager (a client) was the last to set, no values. */
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

type HttpMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface KubeRequest {
  readonly method: HttpMethod;
  /** Path below the server's URL, already percent-encoded: `/api/v1/namespaces/default/secrets/x`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent unchanged. Several pieces are sent one after the other, so that no secret value must be part of a string. */
  readonly body?: string | Uint8Array | readonly Uint8Array[];
  /** Default if the request has a body: `application/json`. */
  readonly contentType?: string;
  /** Default `application/json`. `METADATA_ONLY` (below) requests the metadata of objects without their content. */
  readonly accept?: string | undefined;
  /** Requests a compressed answer. The API server compresses answers above 128 KiB, but no streams. */
  readonly compressed?: boolean;
  /** Largest answer after decompression, bytes. A larger one fails the call. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
  /** Time limit of the call and its wait for a connection, ms; in a stream, until headers arrive. Default 30,000. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** If the kubeconfig names a new server, the call leaves the old one and is sent again. Streams always do so. */
  readonly moves?: boolean;
}

export interface KubeResponse {
  readonly status: number;
  /** May hold secret values, so callers parse it at once and drop it. */
  readonly body: Buffer;
}

/** A response that stays open: a watch. */
export interface KubeStream {
  /**
   * The chunks as they arrive; they can be iterated one time only. The iteration ends when the server ends the
   * response, or after `close`. It throws `ConnectionError` if the connection breaks, and the signal's reason on abort.
   */
  readonly chunks: AsyncIterable<Buffer>;
  /** Ends the connection. Safe to call more than once. */
  close(): void;
}

export interface KubeApi {
  /** The cluster's name in logs, metrics and status: `local`, `tenant`, … */
  readonly cluster: string;
  /**
   * Sends one call. After a failure the call is not sent again: the caller's queue does that. After an answer with
   * Retry-After (429, 500, 503) all later calls of this client wait. While the server does not answer, one call at a time
   * is sent. Calls wait within their time limits. Those that must not wait for others, for example those for the Lease,
   * need a client of their own.
   * @throws ApiError for any status outside 200–299, `ConnectionError` without an answer, `CredentialError` (a
   *   ConnectionError) without credentials, and the signal's reason on abort.
   */
  request(request: KubeRequest): Promise<KubeResponse>;
  /** As `request`, but returns the body in chunks while it arrives. Each stream has a connection outside the pool. */
  stream(request: KubeRequest): Promise<KubeStream>;
}

/** `Accept` header for the metadata of an object without its content. The API server supports it for every kind. */
export const METADATA_ONLY = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1';

const NUMBER = /^(?:0|[1-9]\d*)$/;

/**
 * Whether `version` is older than `than`. Resource versions of one cluster can be compared as numbers (KEP-5504; every
 * server with etcd allowed it before). Some count in nanoseconds: more digits than a JavaScript number has.
 * @returns `false` also if one of them is not a number: the caller then takes the version that arrived last
 */
export function isOlder(version: string, than: string): boolean {
  if (version.length === than.length ? version >= than : version.length > than.length) return false;
  return NUMBER.test(version) && NUMBER.test(than);
}
