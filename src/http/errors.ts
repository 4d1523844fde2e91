/** Errors of this folder, beside those that Node's sockets throw. Each has a code as theirs do, and nothing of a body or header. */

export class HttpError extends Error {
  override readonly name: string = 'HttpError';
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * A kept connection was closed before a byte of the answer came.
 *
 * `EPIPE`: the kernel refused a part of the request, so the server cannot have all of it. After `ECONNRESET` the server may
 * have carried the request out.
 */
export class StaleConnectionError extends HttpError {
  override readonly name = 'StaleConnectionError';

  constructor(code: 'EPIPE' | 'ECONNRESET', cause: Error) {
    super(code, cause.message, { cause });
  }
}

/** The answer is larger than the caller reads, or takes too long for its size. */
export class AnswerTooLargeError extends HttpError {
  override readonly name = 'AnswerTooLargeError';
  /** HTTP status of the answer. */
  readonly status: number;

  constructor(status: number, message: string) {
    super('EMSGSIZE', message);
    this.status = status;
  }
}
