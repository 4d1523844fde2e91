/**
 * What happens to a session's tokens, for logs and metrics. Holds no token.
 */
import type { VaultError } from '../errors.ts';

interface Base {
  readonly addr: string;
  /** `token`, `auth/approle`, … */
  readonly identity: string;
}

export type SessionEvent = Base &
  (
    | { readonly type: 'login' | 'renewed'; readonly ttlSeconds: number }
    | { readonly type: 'loginFailed'; readonly error: VaultError; readonly retryAfterMs: number }
    | { readonly type: 'renewFailed' | 'revokeFailed'; readonly error: VaultError }
    | { readonly type: 'revoked' }
    /** Vault does not know the token any more. */
    | { readonly type: 'tokenLost' }
    /** A given token that cannot be renewed (further). `expiresAt`: ms since 1970. */
    | { readonly type: 'expiring'; readonly expiresAt: number }
  );

export type SessionObserver = (event: SessionEvent) => void;

/** A union's members without some of their fields, each for itself. */
export type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
