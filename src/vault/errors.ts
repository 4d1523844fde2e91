/**
 * What can go wrong with Vault, as one error class with a kind.
 *
 * A message holds the server's origin, the path and Vault's own words after `scrub`; never a token, a credential, a
 * value, or a body that is not Vault's.
 */

export type VaultErrorKind =
  /** The address, CA bundle or another setting of the connection is not usable. */
  | 'invalidTarget'
  /** No mount there, or a path that the mount does not have, or one that no path may look like. */
  | 'invalidPath'
  | 'badRequest'
  /** The entry would be larger than Vault takes, or an answer is larger than a Secret can be. */
  | 'tooLarge'
  | 'notFound'
  /** A policy forbids it; the token is good. */
  | 'permissionDenied'
  /** The login was refused. */
  | 'authFailed'
  /** The token is expired, revoked, or never was one. */
  | 'tokenInvalid'
  /** Somebody wrote the entry between our reading and our writing. */
  | 'casMismatch'
  /** The lease does not exist (any more) or cannot be renewed. */
  | 'leaseGone'
  | 'sealed'
  /** This server is a standby and does not pass requests on (429 with no limit behind it, 472, 473). */
  | 'standby'
  | 'throttled'
  /** 412: a replica that has not seen our last write yet. */
  | 'stale'
  | 'unavailable'
  | 'serverError'
  | 'redirect'
  /** Not what Vault would answer: no JSON, or JSON without what it must have. */
  | 'badResponse'
  | 'tls'
  | 'timeout'
  | 'connection'
  /** Not asked: the last calls failed, and it is not time to try again. */
  | 'circuitOpen'
  /** The session or client was stopped. */
  | 'closed';

/** Kinds that pass by themselves: worth trying again with the same input. */
const TRANSIENT: ReadonlySet<VaultErrorKind> = new Set([
  'sealed',
  'standby',
  'throttled',
  'stale',
  'unavailable',
  'serverError',
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
  /** Below `/v1/`. */
  readonly path?: string | undefined;
  readonly status?: number | undefined;
  /** Vault's own words, scrubbed. */
  readonly errors?: readonly string[] | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

export class VaultError extends Error {
  override readonly name = 'VaultError';
  readonly kind: VaultErrorKind;
  readonly addr: string;
  readonly method: string | undefined;
  readonly path: string | undefined;
  readonly status: number | undefined;
  readonly errors: readonly string[];
  /** Do not try before so many ms; `undefined` where Vault and we have no opinion. */
  readonly retryAfterMs: number | undefined;
  /** What happened, without server and path: for a status message that names them already. */
  readonly reason: string;

  constructor(reason: string, details: VaultErrorDetails) {
    const call = details.path === undefined ? '' : `${details.method ?? 'GET'} ${details.path}: `;
    super(
      `vault ${details.addr}: ${call}${reason}`,
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.kind = details.kind;
    this.addr = details.addr;
    this.method = details.method;
    this.path = details.path;
    this.status = details.status;
    this.errors = details.errors ?? [];
    this.retryAfterMs = details.retryAfterMs;
    this.reason = reason;
  }

  /** Whether the same call may succeed later without anybody changing anything. */
  get transient(): boolean {
    return TRANSIENT.has(this.kind);
  }
}

/** A credential cannot be had at the moment, which passes by itself: nothing was refused. */
export class CredentialUnavailableError extends Error {
  override readonly name = 'CredentialUnavailableError';
}

export function isVaultError(error: unknown, ...kinds: readonly VaultErrorKind[]): error is VaultError {
  return error instanceof VaultError && (kinds.length === 0 || kinds.includes(error.kind));
}
