/** Events of a session's tokens, for logs and metrics. Holds no token. */
import type { VaultError } from '../errors.ts';

interface Base {
  readonly addr: string;
  /** `token`, `auth/approle`, … */
  readonly identity: string;
}

export type SessionEvent = Base &
  (
    | { readonly type: 'login' | 'renewed' | 'revoked' }
    | { readonly type: 'loginFailed'; readonly error: VaultError; readonly retryAfterMs: number }
    | { readonly type: 'renewFailed' | 'revokeFailed'; readonly error: VaultError }
    /** Vault does not accept the token any more. */
    | { readonly type: 'tokenLost' }
    /** A configured token that cannot be renewed (further). `expiresAt`: ms since 1970. */
    | { readonly type: 'expiring'; readonly expiresAt: number }
  );

export type SessionObserver = (event: SessionEvent) => void;

/** Reports an event of one session, which adds server and identity. */
export type EmitSessionEvent = (event: DistributiveOmit<SessionEvent, keyof Base>) => void;

/** `Omit` for each member of a union. */
type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
