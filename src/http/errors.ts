/** Errors of HTTP calls. Like the errors of Node's sockets they have a `code`. They quote no body and no header. */

export class HttpError extends Error {
  override readonly name: string = 'HttpError';
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * A kept connection was closed before a byte of the answer came. After `EPIPE` the server cannot have the whole
 * request, because the kernel refused a part of it. After `ECONNRESET` the server may have carried the request out.
 */
export class StaleConnectionError extends HttpError {
  override readonly name = 'StaleConnectionError';

  constructor(code: 'EPIPE' | 'ECONNRESET', cause: Error) {
    super(code, cause.message, { cause });
  }
}

/** The answer is larger than the caller's limit, or is large and arrives too slowly. */
export class AnswerTooLargeError extends HttpError {
  override readonly name = 'AnswerTooLargeError';
  /** HTTP status of the answer. */
  readonly status: number;

  constructor(status: number, message: string) {
    super('EMSGSIZE', message);
    this.status = status;
  }
}
