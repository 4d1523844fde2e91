/**
 * Calls to one Vault server: connections, time limit, a limit on calls at a time, circuit breaker, typed errors.
 *
 * It holds no token: whose call it is comes with each call. Invariants:
 *
 * - A token goes to the configured scheme, host and port only. A redirect inside that origin is followed once, any
 *   other is an error which names where it points.
 * - The time limit covers waiting for a slot, the connection and the whole answer.
 * - Nothing that was sent is part of an error: Vault's own words are scrubbed, other bodies are not repeated at all.
 */
import type { Clock } from '../runtime/clock.ts';
import { AbortedError, anySignal, throwIfAborted, TimeLimitError } from '../runtime/abort.ts';
import type { SecretBytes } from '../runtime/secret-bytes.ts';
import { type Failure, readAnswer, type VaultResponse } from './answer.ts';
import { Circuit, type CircuitState, type Permit } from './circuit.ts';
import { VaultError, type VaultErrorDetails, type VaultErrorKind } from './errors.ts';
import { type Answer, AnswerTooLongError, Transport } from './exchange.ts';
import { encodePath } from './path.ts';
import { scrub } from './scrub.ts';
import { Slots } from './slots.ts';
import type { VaultTarget } from './target.ts';

export interface VaultRequest {
  readonly method: 'GET' | 'LIST' | 'POST' | 'PUT' | 'DELETE';
  /** Below `/v1/`, not encoded: `secret/data/app`. */
  readonly path: string;
  readonly body?: Buffer | undefined;
  readonly token?: SecretBytes | undefined;
  readonly namespace?: string | undefined;
  /** Everything confidential in the body, to be taken out of Vault's error texts. Called only on errors. */
  readonly redact?: (() => readonly string[]) | undefined;
  /** `false` for a GET that makes something (credentials): never sent a second time. Default: `true` for GET and LIST. */
  readonly repeatable?: boolean | undefined;
  /** Default: the client's. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** One finished call, for metrics. */
export interface VaultCall {
  readonly addr: string;
  readonly method: string;
  readonly path: string;
  /** `undefined`: no answer. */
  readonly status: number | undefined;
  readonly error: VaultErrorKind | undefined;
  readonly durationMs: number;
}

export interface VaultClientOptions {
  readonly clock: Clock;
  /** 0 ≤ r < 1. */
  readonly random?: (() => number) | undefined;
  /** Of a whole call, ms. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Calls at a time. Default 16. */
  readonly concurrency?: number | undefined;
  /** Failures in a row after which the server is left alone for a while. Default 5. */
  readonly circuitThreshold?: number | undefined;
  /** The longest such while, ms. Default 60,000. */
  readonly circuitMaxMs?: number | undefined;
  readonly onCall?: ((call: VaultCall) => void) | undefined;
}

/** Answers that show a server which cannot serve anyone at the moment. */
const SERVER_DOWN: ReadonlySet<VaultErrorKind> = new Set(['sealed', 'standby', 'unavailable']);
/** Codes of node for a certificate or handshake that failed; the rest begin with ERR_SSL_ or ERR_TLS_. */
const TLS_CODES =
  /^(?:ERR_(?:SSL|TLS)_|CERT_|UNABLE_TO_|DEPTH_ZERO_SELF_SIGNED_CERT$|SELF_SIGNED_CERT|EPROTO$|HOSTNAME_MISMATCH$|INVALID_CA$|CRL_)/;

export class VaultClient {
  readonly target: VaultTarget;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #onCall: ((call: VaultCall) => void) | undefined;
  readonly #transport: Transport;
  readonly #slots: Slots;
  readonly #circuit: Circuit;
  /** What opened the circuit, for those who are then not let through. */
  #lastFailure = 'calls without an answer';
  #closed = false;

  /** @throws RangeError naming a bad option */
  constructor(target: VaultTarget, options: VaultClientOptions) {
    const { clock, random, timeoutMs = 10_000, concurrency = 16 } = options;
    if (!(timeoutMs > 0)) throw new RangeError(`timeoutMs must be positive, got ${timeoutMs}`);
    this.target = target;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#onCall = options.onCall;
    this.#slots = new Slots(concurrency);
    this.#circuit = new Circuit({ clock, random, threshold: options.circuitThreshold, maxMs: options.circuitMaxMs });
    this.#transport = new Transport(target, concurrency);
  }

  get circuit(): CircuitState {
    return this.#circuit.state;
  }

  /**
   * One call.
   * @returns an answer of 200–299, or a 404 that carries data
   * @throws VaultError, or AbortedError when the signal is aborted
   */
  async request(request: VaultRequest): Promise<VaultResponse> {
    const what = `calling vault ${this.target.origin}`;
    throwIfAborted(request.signal, what);
    if (this.#closed) throw this.#error(request, 'the connection was closed', { kind: 'closed' });
    const limitMs = request.timeoutMs ?? this.#timeoutMs;
    using linked = anySignal(request.signal);
    const timer = this.#clock.setTimeout(() => {
      linked.abort(new TimeLimitError(what, limitMs));
    }, limitMs);
    try {
      const slot = await this.#slots.take(linked.signal);
      try {
        return await this.#guarded(request, linked.signal);
      } finally {
        slot[Symbol.dispose]();
      }
    } catch (error) {
      if (error instanceof VaultError) throw error;
      if (request.signal?.aborted === true) throw new AbortedError(what, request.signal.reason);
      if (error instanceof AbortedError) {
        throw this.#error(request, `no free call within ${limitMs} ms`, { kind: 'timeout', cause: error });
      }
      throw error;
    } finally {
      timer.cancel();
    }
  }

  /** Closes all connections; calls under way fail. */
  close(): void {
    this.#closed = true;
    this.#transport.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #guarded(request: VaultRequest, signal: AbortSignal): Promise<VaultResponse> {
    const entry = this.#circuit.tryEnter();
    if (entry.refused !== undefined) {
      const { retryAfterMs } = entry;
      throw entry.refused === 'paused'
        ? this.#error(request, 'not asked: vault wants fewer calls', { kind: 'throttled', retryAfterMs })
        : this.#error(request, `not asked, after ${this.#lastFailure}`, { kind: 'circuitOpen', retryAfterMs });
    }
    const started = this.#clock.monotonic();
    let status: number | undefined;
    let kind: VaultErrorKind | undefined;
    try {
      const answer = await this.#exchange(request, signal);
      status = answer.status;
      const response = readAnswer(answer, this.#clock.now());
      if ('kind' in response) throw this.#refused(request, answer, response);
      entry.succeeded();
      return response;
    } catch (error) {
      const failure = this.#asVaultError(request, error);
      kind = failure?.kind;
      this.#report(entry, failure, request.signal?.aborted === true);
      throw failure ?? error;
    } finally {
      const { method, path } = request;
      const durationMs = this.#clock.monotonic() - started;
      this.#onCall?.({ addr: this.target.origin, method, path, status, error: kind, durationMs });
    }
  }

  #report(permit: Permit, failure: VaultError | undefined, aborted: boolean): void {
    if (failure === undefined || aborted || this.#closed) permit.dropped();
    else if (failure.status === undefined || (failure.status >= 472 && SERVER_DOWN.has(failure.kind))) {
      this.#lastFailure = failure.reason;
      permit.failed();
    } else permit.succeeded();
    if (failure?.kind === 'throttled' && failure.retryAfterMs !== undefined) this.#circuit.pause(failure.retryAfterMs);
  }

  async #exchange(request: VaultRequest, signal: AbortSignal): Promise<Answer> {
    const exchange = {
      method: request.method,
      path: `/v1/${encodePath(request.path)}`,
      headers: this.#headers(request),
      body: request.body,
      signal,
      repeatable: request.repeatable ?? (request.method === 'GET' || request.method === 'LIST'),
    };
    const answer = await this.#transport.send(exchange);
    const next = this.#sameOriginRedirect(answer);
    return next === undefined ? answer : await this.#transport.send({ ...exchange, path: next });
  }

  #headers(request: VaultRequest): Record<string, string | number> {
    const namespace = request.namespace ?? this.target.namespace;
    return {
      accept: 'application/json',
      // Vault refuses calls without it where it is set up as an agent or proxy (`require_request_header`).
      'x-vault-request': 'true',
      ...(request.token === undefined ? {} : { 'x-vault-token': this.#tokenHeader(request) }),
      ...(namespace === undefined ? {} : { 'x-vault-namespace': namespace }),
      ...(request.body === undefined
        ? {}
        : { 'content-type': 'application/json', 'content-length': request.body.byteLength }),
    };
  }

  #tokenHeader(request: VaultRequest): string {
    const token = request.token?.bytes().toString('latin1') ?? '';
    if (!/^[\u0021-\u007E]+$/.test(token)) {
      const reason = token === '' ? 'the token is empty' : 'the token has a character that no token may have';
      throw this.#error(request, reason, { kind: 'tokenInvalid' });
    }
    return token;
  }

  /** A path, for a redirect that keeps method, body and origin; `undefined` for every other answer. */
  #sameOriginRedirect(answer: Answer): string | undefined {
    if (answer.status !== 307 && answer.status !== 308) return undefined;
    const to = this.#location(answer);
    const prefix = this.target.url.pathname.replace(/\/$/, '');
    return to !== null && to.origin === this.target.origin && to.pathname.startsWith(`${prefix}/v1/`)
      ? to.pathname.slice(prefix.length) + to.search
      : undefined;
  }

  #refused(request: VaultRequest, answer: Answer, failure: Failure): VaultError {
    const { kind, retryAfterMs } = failure;
    const { status } = answer;
    const token = request.token?.bytes().toString('latin1');
    const secrets = [...(token === undefined ? [] : [token]), ...(request.redact?.() ?? [])];
    const errors = scrub(failure.errors, secrets);
    const words = errors.length > 0 ? errors.join('; ') : describe(kind, status);
    const reason = kind === 'redirect' ? this.#redirectReason(answer) : `${status} ${words}`;
    return this.#error(request, reason, { kind, status, errors, retryAfterMs });
  }

  #redirectReason(answer: Answer): string {
    const to = this.#location(answer);
    const where = to === null ? 'nowhere' : to.origin;
    return `${answer.status} redirects to ${where}, where no token is sent: set addr to the server that answers`;
  }

  #location(answer: Answer): URL | null {
    return URL.parse(answer.headers.location ?? '', this.target.url.href);
  }

  /** `undefined`: the caller gave up. */
  #asVaultError(request: VaultRequest, error: unknown): VaultError | undefined {
    if (error instanceof VaultError) return error;
    if (request.signal?.aborted === true) return undefined;
    if (error instanceof TimeLimitError) {
      return this.#error(request, `no answer within ${error.limitMs} ms`, { kind: 'timeout', cause: error });
    }
    if (error instanceof AnswerTooLongError) {
      return this.#error(request, error.message, { kind: 'badResponse', status: 200, cause: error });
    }
    if (this.#closed) return this.#error(request, 'the connection was closed', { kind: 'closed', cause: error });
    const { code, message } = error as NodeJS.ErrnoException;
    const kind = code !== undefined && TLS_CODES.test(code) ? 'tls' : 'connection';
    return this.#error(request, scrub([message || (code ?? 'no connection')], [])[0] ?? '', { kind, cause: error });
  }

  #error(
    request: VaultRequest,
    reason: string,
    details: Omit<VaultErrorDetails, 'addr' | 'method' | 'path'>,
  ): VaultError {
    return new VaultError(reason, { ...details, addr: this.target.origin, method: request.method, path: request.path });
  }
}

/** Our words where Vault has none. */
const WORDS: Partial<Record<VaultErrorKind, string>> = {
  notFound: 'nothing there',
  badResponse: 'the answer is not JSON, so this is not Vault',
  standby: 'the server is a standby',
  throttled: 'too many calls',
};

function describe(kind: VaultErrorKind, status: number): string {
  return WORDS[kind] ?? (status >= 500 ? 'the server failed' : 'refused');
}
