/**
 * When a login may be tried again.
 *
 * Vault ≥ 1.13 and OpenBao lock an AppRole for 15 minutes after five refused logins, and forget refusals after 15
 * minutes without one (`user_lockout`). So a refused AppRole login is tried at most four times in any 15 minutes, then
 * every 16 minutes: a wrong secret id never locks out the others who use the role. Other failures (no answer, another
 * auth method, no such mount) are waited for exponentially. A changed credential is another session, with a fresh start.
 */
import { KeyedBackoff } from '../../runtime/backoff.ts';
import type { VaultError } from '../errors.ts';
import type { VaultIdentity } from './identity.ts';

export interface LoginBackoffOptions {
  /** 0 ≤ r < 1. */
  readonly random?: (() => number) | undefined;
  /** Waits after the first, second, … refused AppRole login, ms; the last one repeats. */
  readonly refusedDelaysMs?: readonly number[] | undefined;
}

const REFUSED_DELAYS_MS = [30_000, 120_000, 480_000, 960_000];
const KEY = 'login';

export class LoginBackoff {
  readonly #delays: readonly number[];
  readonly #random: () => number;
  readonly #unanswered: KeyedBackoff;
  readonly #refused: KeyedBackoff;
  #refusals = 0;

  constructor(options: LoginBackoffOptions) {
    const { random = Math.random, refusedDelaysMs = REFUSED_DELAYS_MS } = options;
    this.#random = random;
    this.#delays = refusedDelaysMs;
    this.#unanswered = new KeyedBackoff({ baseMs: 1_000, maxMs: 5_000, random });
    this.#refused = new KeyedBackoff({ baseMs: 5_000, maxMs: 300_000, random });
  }

  /** Counts a failed login. @returns ms to wait */
  next(method: VaultIdentity['method'], error: VaultError): number {
    if (error.transient) return this.#unanswered.next(KEY, error.retryAfterMs);
    if (method !== 'approle' || error.kind !== 'authFailed') return this.#refused.next(KEY, error.retryAfterMs);
    const delay = this.#delays[Math.min(this.#refusals, this.#delays.length - 1)] ?? 0;
    this.#refusals++;
    // Only ever later: earlier would be the fifth refusal within the 15 minutes.
    return delay * (1 + 0.1 * this.#random());
  }

  reset(): void {
    this.#refusals = 0;
    this.#unanswered.reset(KEY);
    this.#refused.reset(KEY);
  }
}
