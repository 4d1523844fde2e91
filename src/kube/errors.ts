/**
 * Errors of calls to an API server: an answer outside 200–299 (`ApiError`), or no answer (`ConnectionError`). They
 * never hold the body of a request. Of the body of a response they hold only the texts of the API server's `Status`,
 * shortened, and without the parts that quote the request.
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

/** The API server's `Status` object, as far as Keyferry uses it. All texts are already shortened. */
export interface ApiStatus {
  readonly reason: string;
  readonly message: string;
  readonly causes: readonly StatusCause[];
  readonly retryAfterMs?: number | undefined;
  /** @see ApiError.isStatus. Default true. */
  readonly isStatus?: boolean;
  /** The causes detected in the server's own texts, if the texts here are others. Default: detected in these texts. */
  readonly detected?: Detected;
}

/**
 * Causes detected in the server's own texts. They are detected before Keyferry redacts secret values in the texts: if
 * such a value is a word like `data`, the redacted text no longer shows the cause.
 */
export interface Detected {
  /** Whether the object or the changed field is immutable. The new content itself may be valid. */
  readonly immutable: boolean;
  readonly namespaceTerminating: boolean;
  readonly namespaceMissing: boolean;
  readonly refusal?: ApiRefusal | undefined;
}

/** The call that failed. The path has the names of objects, never secret values; the query is left out. */
export interface CallContext {
  readonly method: string;
  readonly path: string;
}

/** Longest message kept of a `Status`, in characters: enough for a validation error, too short for a payload. */
const MAX_MESSAGE = 1024;
const MAX_CAUSES = 16;

/** The reason, by HTTP status, of an answer that is not a `Status`, such as a proxy's HTML page or an empty body. */
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

/** The reason that the API server usually sends with this HTTP status; `Unknown` for all others. */
export function reasonOfStatus(status: number): string {
  return REASON_OF_STATUS[status] ?? 'Unknown';
}

/** The server answered with a status outside 200–299. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  /** The reason in the `Status`, for example `AlreadyExists`. If the body was not a `Status`: from the HTTP status. */
  readonly reason: string;
  /** The server's message alone. `message` is this text with method, path and status in front of it. */
  readonly statusMessage: string;
  readonly causes: readonly StatusCause[];
  /** How long the server asks to wait (Retry-After), ms, limited to a minute. `undefined`: it does not ask. */
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

  /** A copy with other texts, for example redacted ones, and the same `detected`. This error stays as it is. */
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

/** If one of these fields is immutable, only a replacement (delete and create) of the object can change it. */
const IMMUTABLE_FIELDS: ReadonlySet<string | undefined> = new Set(['type', 'data', 'binaryData', 'immutable']);

function detect(status: number, { message, causes }: ApiStatus): Detected {
  const refusal = refusalIn(status, message);
  return {
    immutable: causes.some((cause) => IMMUTABLE_FIELDS.has(cause.field) && /immutable/iu.test(cause.message ?? '')),
    // A cause that a webhook sends does not count, because a webhook can send any cause.
    namespaceTerminating: refusal?.by !== 'admission' && causes.some(({ reason }) => reason === 'NamespaceTerminating'),
    namespaceMissing: status === 404 && /^namespaces "[^"]*" not found/.test(message),
    refusal,
  };
}

/** No answer: the connection was refused, not trusted, timed out or broke off. A write may still have taken effect. */
export class ConnectionError extends HttpError {
  /** `code` comes from Node (`ECONNREFUSED`, `CERT_HAS_EXPIRED`), or is `ETIMEDOUT` for the time limit of the call. */
  override readonly name: string = 'ConnectionError';
}

/** No credentials (file unreadable, exec plugin failed); no request was sent. */
export class CredentialError extends ConnectionError {
  override readonly name = 'CredentialError';

  constructor(message: string, options?: ErrorOptions) {
    super('ECREDENTIALS', message, options);
  }
}

/** Wraps an error of a Node socket in a ConnectionError. Returns a ConnectionError unchanged. */
export function toConnectionError(call: CallContext, error: unknown): ConnectionError {
  if (error instanceof ConnectionError) return error;
  // If a name has several addresses and all refuse the connection, Node throws an AggregateError without a message.
  const inner: unknown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  const code = codeOf(inner) ?? codeOf(error) ?? 'ECONNECTION';
  const text = inner instanceof Error && inner.message !== '' ? inner.message : code;
  return new ConnectionError(code, `${call.method} ${call.path}: ${text}`, { cause: error });
}

/**
 * The error for an answer outside 200–299, from its status, body and `Retry-After` header (seconds or a date).
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

/** Status codes and reasons that can only mean a refusal. */
const REFUSALS: ReadonlySet<number | string> = new Set([400, 403, 422, 'BadRequest', 'Forbidden', 'Invalid']);

/** The error if a webhook or policy refused. These choose code and reason freely, so a `NotFound` becomes a 403. */
function refusalOf(call: CallContext, status: number, refusal: ApiStatus): ApiError {
  const isPlain = REFUSALS.has(status) && REFUSALS.has(refusal.reason);
  const { message, causes } = refusal;
  return new ApiError(call, isPlain ? status : 403, isPlain ? refusal : { reason: 'Forbidden', message, causes });
}

/** Parses a `Status`, from an answer or from the ERROR event of a watch. `undefined`: the bytes are something else. */
export function parseStatus(body: Uint8Array): ApiStatus | undefined {
  // A Status is a JSON object, which begins with `{` (0x7b), and is small.
  if (body.length === 0 || body.length > 1024 * 1024 || body[0] !== 0x7b) return undefined;
  try {
    return statusOf(JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8')));
  } catch {
    // Not JSON, such as a proxy's page. Its text is not used: it may quote the request.
    return undefined;
  }
}

/** As `parseStatus`, for JSON that is already parsed. */
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

/** A text of the server without the parts that quote the request, cut to `MAX_MESSAGE` characters. */
function text(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const clean = value
    // API servers before 1.23 quote the bytes around a mistake in JSON: `error found in #10 byte of ...|<body>`.
    .replace(
      / ?(?:error found in #\d+ byte of |bigger context )\.\.\.\|[\s\S]*/u,
      ' [quotation of the request left out]',
    )
    // If a field has the wrong type, the error of server-side apply prints the field's value.
    .replace(/&value\.value\w+\{[\s\S]*\}/u, '[value left out]');
  return clean.length > MAX_MESSAGE ? `${clean.slice(0, MAX_MESSAGE)}…` : clean;
}

function hasStatus(status: number): (error: unknown) => error is ApiError {
  return (error): error is ApiError => error instanceof ApiError && error.status === status;
}

export const isNotFound = hasStatus(404);

/**
 * Whether the API server answered that the object `name` does not exist. Other 404s mean that the API is not served, or
 * come from a proxy. They never lead to a deletion.
 */
export function isObjectGone(error: unknown, name: string): error is ApiError {
  return (
    isNotFound(error) &&
    error.reason === 'NotFound' &&
    error.statusMessage.includes(`${JSON.stringify(name)} not found`)
  );
}

/** Whether the object changed after it was read (409 `Conflict`). The caller then reads it and decides again. */
export function isConflict(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 409 && error.reason === 'Conflict';
}

export function isAlreadyExists(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 409 && error.reason === 'AlreadyExists';
}

/** Whether the resourceVersion or the continue token is too old: a 410, or reason `Expired` or `Gone`. */
export function isGone(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.status === 410 || error.reason === 'Expired' || error.reason === 'Gone');
}

export const isForbidden = hasStatus(403);
export const isUnauthorized = hasStatus(401);
export const isThrottled = hasStatus(429);

/**
 * Whether the API server cannot fill its cache for this kind (429 on a watch). After the server's start this ends soon,
 * but it lasts if objects of the kind cannot be converted. Calls for other kinds are not affected.
 */
export function isStorageStarting(error: unknown): error is ApiError {
  return isThrottled(error) && error.statusMessage.startsWith('storage is (re)initializing');
}

/** The object fails validation (422). */
export const isInvalid = hasStatus(422);

/** Whether the change needs a replacement of the object (422), because the object or its type is immutable. */
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

/** Whether a proxy or load balancer answered in place of the server: a 502, 503 or 504 that is not a `Status`. */
export function isGatewayError(error: ApiError): boolean {
  return !error.isStatus && error.status >= 502 && error.status <= 504;
}

/** Codes of errors that Keyferry itself causes. They do not show that the server fails to answer. */
const OWN_CODES: ReadonlySet<string> = new Set([
  'ECLOSED',
  'EMSGSIZE',
  'EFENCED',
  'EROLLBACK',
  'EREPLACED',
  'ERR_UNESCAPED_CHARACTERS',
  'ERR_INVALID_CHAR',
]);

/** The server did not answer, or a proxy answered in its place. */
export function isUnanswered(error: unknown): boolean {
  if (error instanceof ConnectionError) return !OWN_CODES.has(error.code);
  return error instanceof ApiError && isGatewayError(error);
}

/** The code of an error of Node, for example `ENOENT`; `undefined`: it has none. */
export function codeOf(error: unknown): string | undefined {
  return isRecord(error) && typeof error['code'] === 'string' ? error['code'] : undefined;
}
