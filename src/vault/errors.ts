/**
 * The error of a call to Vault: one class, whose `kind` tells the cases apart.
 *
 * A message has the server's origin, the path, and Vault's own message after `scrub` has removed secrets from it. It
 * never has a token, a credential, a value, or a body that Vault did not send.
 */

export type VaultErrorKind =
  /** The address, CA bundle or another setting of the connection is not usable. */
  | 'invalidServer'
  /** No mount at the path, a path that the mount does not have, or a malformed path. */
  | 'invalidPath'
  | 'badRequest'
  /** The entry to write is larger than Vault accepts, or an answer is larger than a Secret can be. */
  | 'tooLarge'
  | 'notFound'
  /** A policy forbids the call; the token is valid. */
  | 'permissionDenied'
  /** Vault refused the login. */
  | 'authFailed'
  /** The token is expired, revoked or unknown. */
  | 'tokenInvalid'
  /** Another client wrote the entry between the read and the write of Keyferry. */
  | 'casMismatch'
  /** The lease does not exist or cannot be renewed. */
  | 'leaseGone'
  /** Vault cannot answer the call now: it is sealed, a standby or overloaded, or has an error of its own. */
  | 'unavailable'
  | 'redirect'
  /** Not an answer of Vault: no JSON, or JSON that lacks required fields. */
  | 'badResponse'
  | 'tls'
  | 'timeout'
  | 'connection'
  /** Keyferry did not send the call: earlier calls failed, and the pause after these failures is not over. */
  | 'circuitOpen'
  /** The session or client was stopped. */
  | 'closed';

/** Kinds after which the same call may succeed later. */
const TRANSIENT: ReadonlySet<VaultErrorKind> = new Set([
  'unavailable',
  'badResponse',
  'timeout',
  'connection',
  'circuitOpen',
]);

export interface VaultErrorDetails {
  readonly kind: VaultErrorKind;
  /** Scheme, host and port of the server. */
  readonly addr: string;
  readonly method?: string | undefined;
  /** Below `/v1/`, for example `secret/data/app`. */
  readonly path?: string | undefined;
  readonly status?: number | undefined;
  /** Vault's messages, after `scrub` has removed secrets from them. */
  readonly errors?: readonly string[] | undefined;
  readonly retryAfterMs?: number | undefined;
  /** Whether the error is Vault's answer to a login. */
  readonly isLogin?: boolean | undefined;
  readonly cause?: unknown;
}

export class VaultError extends Error {
  override readonly name = 'VaultError';
  readonly kind: VaultErrorKind;
  readonly addr: string;
  readonly path: string | undefined;
  readonly status: number | undefined;
  readonly errors: readonly string[];
  /** Shortest wait before a retry, ms; `undefined`: a retry may follow at once. */
  readonly retryAfterMs: number | undefined;
  /** Whether the error is Vault's answer to a login. */
  readonly isLogin: boolean;
  /** The message without the server and the path, for texts that already name both. */
  readonly reason: string;

  readonly #details: VaultErrorDetails;

  constructor(reason: string, details: VaultErrorDetails) {
    const call = details.path === undefined ? '' : `${details.method ?? 'GET'} ${details.path}: `;
    super(
      `vault ${details.addr}: ${call}${reason}`,
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.#details = details;
    this.kind = details.kind;
    this.addr = details.addr;
    this.path = details.path;
    this.status = details.status;
    this.errors = details.errors ?? [];
    this.retryAfterMs = details.retryAfterMs;
    this.isLogin = details.isLogin === true;
    this.reason = reason;
  }

  /** Returns a copy of this error with the text `reason` and the fields in `changes`. Its `cause` is this error. */
  reworded(
    reason: string,
    changes: Partial<Pick<VaultErrorDetails, 'kind' | 'retryAfterMs' | 'isLogin'>> = {},
  ): VaultError {
    return new VaultError(reason, { ...this.#details, ...changes, cause: this });
  }

  /** Whether the same call may succeed later without a change of its input. */
  get transient(): boolean {
    return TRANSIENT.has(this.kind);
  }
}

/** A credential for a login is not available at the moment. Nobody refused the credential, so a retry may succeed. */
export class CredentialUnavailableError extends Error {
  override readonly name = 'CredentialUnavailableError';
}

export function isVaultError(error: unknown, ...kinds: readonly VaultErrorKind[]): error is VaultError {
  return error instanceof VaultError && (kinds.length === 0 || kinds.includes(error.kind));
}
