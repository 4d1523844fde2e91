/**
 * Sends calls to one Vault server, with a time limit, pauses after failures and typed errors. The queues of the callers
 * limit how many calls run at a time; the revocations and renewals of leases and tokens have no queue, and wait for one
 * of the connections if there are too many (`transport.ts`).
 *
 * The client stores no token: each call brings its own. Invariants:
 * - A token is sent only to the configured origin (scheme, host and port). One redirect within this origin is followed.
 *   Any other redirect is an error that names the other origin.
 * - The time limit covers the connection and the whole answer.
 * - Failures of one identity do not delay other identities: each identity has a lane for each mount (`lanes.ts`). A call
 *   that cannot be sent does not count as a failure. After a 429 nothing waits here: Vault's quota may concern one mount
 *   or identity, so the queue of the caller waits for the time of the Retry-After.
 * - An error contains no secret of its call: it quotes Vault's messages after `scrub`, and no other body.
 */
import { AnswerTooLargeError } from '../../http/errors.ts';
import type { Answer } from '../../http/exchange.ts';
import type { Clock } from '../../runtime/clock.ts';
import { AbortedError, anySignal, throwIfAborted, TimeLimitError } from '../../runtime/abort.ts';
import { KeyedLock } from '../../runtime/queue/keyed-lock.ts';
import type { SecretBytes } from '../../runtime/secret-bytes.ts';
import { VaultAddresses, type VaultServer, VaultServerError } from './server.ts';
import { connectionFailure, describe, type Failure, readAnswer, type VaultResponse, scrub } from './answer.ts';
import { VaultError, type VaultErrorDetails } from '../errors.ts';
import { type ClientCertificate, Transport } from './transport.ts';
import { type Lane, lanes, mountOfPath } from './lanes.ts';
import { encodePath } from '../path.ts';

export interface VaultRequest {
  readonly method: 'GET' | 'LIST' | 'POST' | 'PUT' | 'DELETE';
  /** Below `/v1/`, not encoded: `secret/data/app`. */
  readonly path: string;
  readonly body?: Buffer | undefined;
  /** The mount of the path, which chooses the lane of the call. Default: `mountOfPath`. */
  readonly mount?: string | undefined;
  readonly token?: SecretBytes | undefined;
  readonly namespace?: string | undefined;
  /** Returns all secrets in the body, which are removed from Vault's error messages. Called only after an error. */
  readonly redact?: (() => readonly string[]) | undefined;
  /** Whether the call may be sent again; `false` for a GET that creates credentials. Default: true for GET, LIST. */
  readonly repeatable?: boolean | undefined;
  /** Time limit of this call, ms. Default: that of the client. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** One finished call, for metrics. */
export interface VaultCall {
  readonly addr: string;
  readonly method: string;
  /** Below `/v1/`. */
  readonly path: string;
  /** HTTP status; `undefined`: Vault did not answer. */
  readonly status: number | undefined;
}

export interface VaultClientOptions {
  readonly clock: Clock;
  /** Time limit of a whole call, ms. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Which servers may be called. Default: all but link-local and metadata addresses. */
  readonly addresses?: VaultAddresses | undefined;
  /** URL of an HTTP proxy; `undefined`: direct connections. */
  readonly proxy?: string | undefined;
  readonly client?: ClientCertificate | undefined;
  /** The turns of large answers, which all clients of a process share. Default: for this client alone. */
  readonly largeAnswers?: KeyedLock | undefined;
  readonly onCall?: ((call: VaultCall) => void) | undefined;
}

/** Sends the calls of one identity. */
export interface VaultCalls {
  readonly server: VaultServer;
  /**
   * Sends one call.
   * @returns an answer of 200–299, or a 404 that carries data
   * @throws VaultError, or AbortedError when the signal is aborted
   */
  request(request: VaultRequest): Promise<VaultResponse>;
}

/**
 * Not usable: the answer of a server that may be unable to serve any call. A standby that serves none (472, 473), a Vault
 * not initialized (501) or sealed (503), a proxy without Vault.
 */
const DOWN_STATUS: ReadonlySet<number> = new Set([472, 473, 501, 502, 503, 504]);
/** Longest token, bytes. Tokens of Vault have about 100 characters, batch tokens at most 500. */
const LONGEST_TOKEN = 16 * 1024;

export class VaultClient {
  readonly server: VaultServer;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #onCall: ((call: VaultCall) => void) | undefined;
  readonly #transport: Transport;
  #closed = false;

  /** @throws VaultServerError for a server that may not be called */
  constructor(server: VaultServer, options: VaultClientOptions) {
    const { addresses = new VaultAddresses(), largeAnswers = new KeyedLock() } = options;
    const problem = addresses.problem(server.url);
    if (problem !== undefined) throw new VaultServerError('addr', problem, server.origin);
    const { clock, timeoutMs = 10_000 } = options;
    this.server = server;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#onCall = options.onCall;
    this.#transport = new Transport(server, { ...options, largeAnswers, addresses });
  }

  /** Returns an object that sends the calls of one identity. It has its own lanes. */
  identity(): VaultCalls {
    const laneOf = lanes(this.#clock);
    const request = (call: VaultRequest): Promise<VaultResponse> =>
      this.#call(call, laneOf(call.mount ?? mountOfPath(call.path)));
    return { server: this.server, request };
  }

  /** Closes all connections; running calls fail. */
  close(): void {
    this.#closed = true;
    this.#transport.destroy();
  }

  async #call(request: VaultRequest, lane: Lane): Promise<VaultResponse> {
    const what = `calling vault ${this.server.origin}`;
    throwIfAborted(request.signal, what);
    if (this.#closed) throw this.#error(request, 'the connection was closed', { kind: 'closed' });
    const headers = this.#headers(request);
    const { reason, retryAfterMs } = lane.refusal ?? {};
    if (reason !== undefined) throw this.#error(request, reason, { kind: 'circuitOpen', retryAfterMs });
    const limitMs = request.timeoutMs ?? this.#timeoutMs;
    using linked = anySignal(request.signal);
    const timer = this.#clock.setTimeout(() => linked.abort(new TimeLimitError(what, limitMs)), limitMs);
    let status: number | undefined;
    try {
      const answer = await lane.run(() => this.#exchange(request, headers, linked.signal));
      status = answer.status;
      const response = readAnswer(answer, this.#clock.now());
      if ('kind' in response) throw this.#refused(request, answer, response);
      lane.answered();
      return response;
    } catch (error) {
      const failure = this.#asVaultError(request, error);
      if (failure === undefined) throw new AbortedError(what, request.signal?.reason);
      if (failure.status !== undefined && !DOWN_STATUS.has(failure.status)) lane.answered();
      else if (request.signal?.aborted !== true && !this.#closed) lane.failed(failure.reason);
      throw failure;
    } finally {
      timer.cancel();
      this.#onCall?.({ addr: this.server.origin, method: request.method, path: request.path, status });
    }
  }

  async #exchange(request: VaultRequest, headers: readonly string[], signal: AbortSignal): Promise<Answer> {
    const exchange = {
      method: request.method,
      path: `/v1/${encodePath(request.path)}`,
      headers,
      body: request.body,
      signal,
      repeatable: isRepeatable(request),
    };
    const answer = await this.#transport.send(exchange);
    const next = this.#sameOriginRedirect(answer);
    return next === undefined ? answer : await this.#transport.send({ ...exchange, path: next });
  }

  /** Makes the headers of a call. @throws VaultError `tokenInvalid` if the token cannot be a header */
  #headers(request: VaultRequest): readonly string[] {
    const namespace = request.namespace ?? this.server.namespace;
    const headers: string[] = [];
    if (request.token !== undefined) headers.push('X-Vault-Token', this.#tokenHeader(request));
    if (namespace !== undefined) headers.push('X-Vault-Namespace', namespace);
    if (request.body !== undefined) headers.push('Content-Type', 'application/json');
    return headers;
  }

  #tokenHeader(request: VaultRequest): string {
    const token = request.token?.bytes().toString('latin1') ?? '';
    if (!/^[\u0021-\u007E]+$/.test(token)) {
      const reason = token === '' ? 'the token is empty' : 'the token has an invalid character';
      throw this.#error(request, reason, { kind: 'tokenInvalid' });
    }
    if (token.length > LONGEST_TOKEN) {
      throw this.#error(request, `the token is longer than ${LONGEST_TOKEN} bytes`, { kind: 'tokenInvalid' });
    }
    return token;
  }

  /** The new path if the answer redirects (307, 308) to the same origin; `undefined` for every other answer. */
  #sameOriginRedirect(answer: Answer): string | undefined {
    if (answer.status !== 307 && answer.status !== 308) return undefined;
    const to = this.#location(answer);
    const prefix = this.server.url.pathname.replace(/\/$/, '');
    return to !== null && to.origin === this.server.origin && to.pathname.startsWith(`${prefix}/v1/`)
      ? to.pathname.slice(prefix.length) + to.search
      : undefined;
  }

  #refused(request: VaultRequest, answer: Answer, failure: Failure): VaultError {
    const { kind, retryAfterMs } = failure;
    const { status } = answer;
    const token = request.token?.bytes().toString('latin1');
    const secrets = [...(token === undefined ? [] : [token]), ...(request.redact?.() ?? [])];
    const errors = scrub(failure.errors, secrets);
    const text = errors.length > 0 ? errors.join('; ') : describe(kind, status);
    const reason = kind === 'redirect' ? this.#redirectReason(answer) : `${status} ${text}`;
    return this.#error(request, reason, { kind, status, errors, retryAfterMs });
  }

  #redirectReason(answer: Answer): string {
    const to = this.#location(answer);
    const where = to === null ? 'nowhere' : to.origin;
    return `${answer.status} redirects to ${where}, and tokens are not sent there: set addr to the server that answers`;
  }

  #location(answer: Answer): URL | null {
    return URL.parse(answer.headers.location ?? '', this.server.url.href);
  }

  /** Converts the error of a failed call. `undefined`: the caller aborted the call. */
  #asVaultError(request: VaultRequest, error: unknown): VaultError | undefined {
    if (error instanceof VaultError) return error;
    if (request.signal?.aborted === true) return undefined;
    if (error instanceof TimeLimitError) {
      return this.#error(request, `no answer within ${error.limitMs} ms`, { kind: 'timeout', cause: error });
    }
    if (error instanceof AnswerTooLargeError) {
      return this.#error(request, error.message, { kind: 'tooLarge', status: error.status, cause: error });
    }
    if (this.#closed) return this.#error(request, 'the connection was closed', { kind: 'closed', cause: error });
    const { kind, reason } = connectionFailure(error as NodeJS.ErrnoException);
    return this.#error(request, reason, { kind, cause: error });
  }

  #error(
    request: VaultRequest,
    reason: string,
    details: Omit<VaultErrorDetails, 'addr' | 'method' | 'path'>,
  ): VaultError {
    return new VaultError(reason, { ...details, addr: this.server.origin, method: request.method, path: request.path });
  }
}

function isRepeatable({ repeatable, method }: VaultRequest): boolean {
  return repeatable ?? (method === 'GET' || method === 'LIST');
}
