/**
 * Errors of calls to an API server: an answer outside 200–299 (`ApiError`), or no answer (`ConnectionError`). They
 * never hold a request's body, and of a response's body only the message of the API server's `Status`, shortened and
 * without the parts that quote the request.
 */
import { HttpError } from '../http/errors.ts';
import { limitRetryAfter, parseRetryAfter } from '../runtime/text/retry-after.ts';
import { isRecord } from './json.ts';
import { type ApiRefusal, refusalIn } from './refusals.ts';

/** One entry of `status.details.causes`: which field of the object was wrong, and how. */
export interface StatusCause {
  readonly field?: string | undefined;
  readonly message?: string | undefined;
  readonly reason?: string | undefined;
}

/** The API server's `Status` object, as far as it is used. All texts are already shortened. */
export interface ApiStatus {
  readonly reason: string;
  readonly message: string;
  readonly causes: readonly StatusCause[];
  readonly retryAfterMs?: number | undefined;
  /** @see ApiError.isStatus. Default true. */
  readonly isStatus?: boolean;
  /** Given if the texts were changed. Default: detected in the texts. */
  readonly detected?: Detected;
}

/**
 * Causes detected in the server's own texts. They are detected once, before any redaction: a redacted value may be a
 * word such as `data`, and the causes must stay the same without it.
 */
export interface Detected {
  /** Whether the object or the changed field is immutable. The new content may be valid all the same. */
  readonly immutable: boolean;
  readonly namespaceTerminating: boolean;
  readonly namespaceMissing: boolean;
  readonly refusal?: ApiRefusal | undefined;
}

/** Which call an error belongs to. The path carries names, never values; the query is left out. */
export interface CallContext {
  readonly cluster: string;
  readonly method: string;
  readonly path: string;
}

/** Longest message kept of a `Status`, in characters: enough for a validation error, too short for a payload. */
const MAX_MESSAGE = 1024;
const MAX_CAUSES = 16;

/** Reasons for answers that are no `Status`, such as a proxy's HTML page or an empty body. */
const REASON_OF_STATUS: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  409: 'Conflict',
  410: 'Gone',
  413: 'RequestEntityTooLarge',
  415: 'UnsupportedMediaType',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

/** The usual reason of an answer with this status. */
export function reasonOfStatus(status: number): string {
  return REASON_OF_STATUS[status] ?? 'Unknown';
}

/** An answer outside 200–299. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  /** The `Status` object's reason, as `AlreadyExists`; from the HTTP status where the body was no `Status`. */
  readonly reason: string;
  /** The server's message; `message` has the call in front of it. */
  readonly statusMessage: string;
  readonly causes: readonly StatusCause[];
  /** Retry-After, ms, capped. */
  readonly retryAfterMs: number | undefined;
  /** Whether the body was a `Status`, so that the API server itself answered and not a proxy in front of it. */
  readonly isStatus: boolean;
  readonly detected: Detected;
  readonly call: CallContext;

  constructor(call: CallContext, status: number, answer: ApiStatus) {
    super(`${call.method} ${call.path}: ${status} ${answer.reason}: ${answer.message}`);
    this.status = status;
    this.reason = answer.reason;
    this.statusMessage = answer.message;
    this.causes = answer.causes;
    this.retryAfterMs = answer.retryAfterMs;
    this.isStatus = answer.isStatus ?? true;
    this.detected = answer.detected ?? detect(status, answer);
    this.call = call;
  }

  /** A copy with other texts, and the causes detected in the server's own. This error and its stack keep theirs. */
  reworded(texts: Partial<Pick<ApiStatus, 'reason' | 'message' | 'causes'>>): ApiError {
    const { reason, statusMessage: message, causes, retryAfterMs, isStatus, detected } = this;
    return new ApiError(this.call, this.status, {
      reason,
      message,
      causes,
      retryAfterMs,
      isStatus,
      detected,
      ...texts,
    });
  }
}

/** Fields which, if they are immutable, change only by a replacement of the object. */
const IMMUTABLE_FIELDS: ReadonlySet<string | undefined> = new Set(['type', 'data', 'binaryData', 'immutable']);

function detect(status: number, { message, causes }: ApiStatus): Detected {
  const refusal = refusalIn(status, message);
  return {
    immutable: causes.some((cause) => IMMUTABLE_FIELDS.has(cause.field) && /immutable/iu.test(cause.message ?? '')),
    // The cause of a webhook does not count, because a webhook chooses its causes freely.
    namespaceTerminating: refusal?.by !== 'admission' && causes.some(({ reason }) => reason === 'NamespaceTerminating'),
    namespaceMissing: status === 404 && /^namespaces "[^"]*" not found/.test(message),
    refusal,
  };
}

/** No answer: the connection was refused, not trusted, timed out or broke off. A write may have been carried out. */
export class ConnectionError extends HttpError {
  /** The code is one of Node (`ECONNREFUSED`, `CERT_HAS_EXPIRED`), or Keyferry: `ETIMEDOUT` for the limit of the call. */
  override readonly name: string = 'ConnectionError';
}

/** No credentials (file unreadable, exec plugin failed); no request was sent. */
export class CredentialError extends ConnectionError {
  override readonly name = 'CredentialError';

  constructor(message: string, options?: ErrorOptions) {
    super('ECREDENTIALS', message, options);
  }
}

/** Wraps errors of Node's sockets; a ConnectionError passes unchanged. */
export function toConnectionError(call: CallContext, error: unknown): ConnectionError {
  if (error instanceof ConnectionError) return error;
  // If a name has several addresses and all refuse the connection, Node throws an AggregateError without a message.
  const inner: unknown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  const code = codeOf(inner) ?? codeOf(error) ?? 'ECONNECTION';
  const text = inner instanceof Error && inner.message !== '' ? inner.message : code;
  return new ConnectionError(code, `${call.method} ${call.path}: ${text}`, { cause: error });
}

/**
 * Makes the error of an answer from its status, body and `Retry-After` header (seconds or a date).
 * @param now ms since the epoch, to turn a date into a duration
 */
export function apiErrorOf(
  call: CallContext,
  status: number,
  body: Uint8Array,
  retryAfter: string | undefined,
  now: number,
): ApiError {
  const parsed = parseStatus(body);
  if (parsed !== undefined && refusalIn(status, parsed.message)?.by === 'admission')
    return refusalOf(call, status, parsed);
  const wait = parseRetryAfter(retryAfter, now) ?? parsed?.retryAfterMs;
  return new ApiError(call, status, {
    reason: parsed === undefined || parsed.reason === '' ? reasonOfStatus(status) : parsed.reason,
    // A body that is not a Status is not quoted, because it may quote the request.
    message: parsed?.message ?? (status === 404 ? 'the API is not served' : 'the response is not a Status object'),
    causes: parsed?.causes ?? [],
    isStatus: parsed !== undefined,
    retryAfterMs: wait,
  });
}

/** Status codes and reasons that mean a refusal and nothing else. */
const REFUSALS: ReadonlySet<number | string> = new Set([400, 403, 422, 'BadRequest', 'Forbidden', 'Invalid']);

/** Webhooks choose code and reason freely. Their `Conflict` or `NotFound` means nothing, and becomes a 403. */
function refusalOf(call: CallContext, status: number, refusal: ApiStatus): ApiError {
  const isPlain = REFUSALS.has(status) && REFUSALS.has(refusal.reason);
  const { message, causes } = refusal;
  return new ApiError(call, isPlain ? status : 403, isPlain ? refusal : { reason: 'Forbidden', message, causes });
}

/** Reads a `Status` object, also that of a watch's ERROR event; `undefined` if the bytes are something else. */
export function parseStatus(body: Uint8Array): ApiStatus | undefined {
  // A Status is a small JSON object.
  if (body.length === 0 || body.length > 1024 * 1024 || body[0] !== 0x7b) return undefined;
  try {
    return statusOf(JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8')));
  } catch {
    // Not JSON, such as a proxy's page. Its text is not used: it may quote the request.
    return undefined;
  }
}

/** As `parseStatus`, for an object that is already parsed. */
export function statusOf(value: unknown): ApiStatus | undefined {
  if (!isRecord(value) || value['kind'] !== 'Status') return undefined;
  const details = isRecord(value['details']) ? value['details'] : {};
  const causes = Array.isArray(details['causes']) ? details['causes'].slice(0, MAX_CAUSES) : [];
  const seconds = details['retryAfterSeconds'];
  return {
    reason: text(value['reason']) ?? '',
    message: text(value['message']) ?? '',
    causes: causes.filter(isRecord).map(causeOf),
    ...(typeof seconds === 'number' && seconds > 0 ? { retryAfterMs: limitRetryAfter(seconds * 1000) } : {}),
  };
}

function causeOf(value: Record<string, unknown>): StatusCause {
  return { field: text(value['field']), message: text(value['message']), reason: text(value['reason']) };
}

/** A server's text without quotations of the request, and cut. */
function text(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const clean = value
    // API servers before 1.23 quote the bytes around a mistake in JSON: `error found in #10 byte of ...|<body>`.
    .replace(
      / ?(?:error found in #\d+ byte of |bigger context )\.\.\.\|[\s\S]*/u,
      ' [quotation of the request left out]',
    )
    // Server-side apply prints a value of the wrong type.
    .replace(/&value\.value\w+\{[\s\S]*\}/u, '[value left out]');
  return clean.length > MAX_MESSAGE ? `${clean.slice(0, MAX_MESSAGE)}…` : clean;
}

/** Retry-After of an ApiError, ms; `undefined` for other errors. */
export function retryAfterMs(error: unknown): number | undefined {
  return error instanceof ApiError ? error.retryAfterMs : undefined;
}

function hasStatus(status: number): (error: unknown) => error is ApiError {
  return (error): error is ApiError => error instanceof ApiError && error.status === status;
}

export const isNotFound = hasStatus(404);

/**
 * The API server answered that this object does not exist. Other 404s mean that the API is not served, or come from a
 * proxy. They never lead to a deletion.
 */
export function isObjectGone(error: unknown, name: string): error is ApiError {
  return (
    isNotFound(error) &&
    error.reason === 'NotFound' &&
    error.statusMessage.includes(`${JSON.stringify(name)} not found`)
  );
}

/** The object changed since it was read (409 `Conflict`): read again, decide again. */
export function isConflict(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 409 && error.reason === 'Conflict';
}

export function isAlreadyExists(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 409 && error.reason === 'AlreadyExists';
}

/** The resourceVersion or the continue token is too old: 410, by either of its reasons. */
export function isGone(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.status === 410 || error.reason === 'Expired' || error.reason === 'Gone');
}

export const isForbidden = hasStatus(403);
export const isUnauthorized = hasStatus(401);
export const isThrottled = hasStatus(429);

/**
 * The server cannot fill its cache of one kind yet (429 on watches): at its start, or permanently if the objects of a
 * kind cannot be converted. Calls for other kinds are not affected.
 */
export function isStorageStarting(error: unknown): error is ApiError {
  return isThrottled(error) && error.statusMessage.startsWith('storage is (re)initializing');
}

/** The object fails validation (422). */
export const isInvalid = hasStatus(422);

/** The request is malformed or not understood (400), as `sendInitialEvents` may be on servers without WatchList. */
export const isBadRequest = hasStatus(400);

/** The object has to be replaced (422): it is immutable, or of another type. */
export function isImmutable(error: unknown): error is ApiError {
  return isInvalid(error) && error.detected.immutable;
}

/** The namespace is being deleted, so that nothing can be created in it (403 with this cause; servers since 1.14). */
export function isNamespaceTerminating(error: unknown): error is ApiError {
  return isForbidden(error) && error.detected.namespaceTerminating;
}

/** The namespace of the object does not exist (404). */
export function isNamespaceMissing(error: unknown): error is ApiError {
  return isNotFound(error) && error.detected.namespaceMissing;
}

/** The server failed (5xx) or is overloaded (429): the same call may succeed later. False for connection errors. */
export function isServerFailure(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.status >= 500 || error.status === 429);
}

/** A proxy or load balancer answered that it has no server (its own 502, 503 or 504). */
export function isGatewayError(error: ApiError): boolean {
  return !error.isStatus && error.status >= 502 && error.status <= 504;
}

/** Codes of errors that Keyferry makes itself: they do not show that the server is silent. */
const OWN_CODES: ReadonlySet<string> = new Set([
  'ECLOSED',
  'EMSGSIZE',
  'EFENCED',
  'EROLLBACK',
  'EREPLACED',
  'ERR_UNESCAPED_CHARACTERS',
]);

/** The server did not answer, or a proxy answered in its place. */
export function isUnanswered(error: unknown): boolean {
  if (error instanceof ConnectionError) return !OWN_CODES.has(error.code);
  return error instanceof ApiError && isGatewayError(error);
}

/** Node's code of an error: `ENOENT`. */
export function codeOf(error: unknown): string | undefined {
  return isRecord(error) && typeof error['code'] === 'string' ? error['code'] : undefined;
}
