/**
 * When a login may be tried again.
 *
 * Vault ≥ 1.13 and OpenBao lock an AppRole for 15 minutes after five refused logins, and forget refusals after 15
 * minutes without one (`user_lockout`). So a refused AppRole login is tried at most four times in any 15 minutes, then
 * every 16 minutes. So a wrong secret id never locks the role for its other users. After other failures (no answer, another
 * auth method, no such mount) the wait grows exponentially. A changed credential is another session, which starts fresh.
 */
import { Backoff } from '../../runtime/queue/backoff.ts';
import type { VaultError } from '../errors.ts';
import type { VaultIdentity } from './identity.ts';

export interface LoginBackoffOptions {
  /** 0 ≤ r < 1. */
  readonly random?: (() => number) | undefined;
  /** Waits after the first, second, … refused AppRole login, ms; the last one repeats. */
  readonly refusedDelaysMs?: readonly number[] | undefined;
}

const REFUSED_DELAYS_MS = [30_000, 120_000, 480_000, 960_000];

export class LoginBackoff {
  readonly #delays: readonly number[];
  readonly #random: () => number;
  readonly #unanswered: Backoff;
  readonly #refused: Backoff;
  #refusals = 0;

  constructor(options: LoginBackoffOptions) {
    const { random = Math.random, refusedDelaysMs = REFUSED_DELAYS_MS } = options;
    this.#random = random;
    this.#delays = refusedDelaysMs;
    this.#unanswered = new Backoff({ baseMs: 1_000, maxMs: 5_000, random });
    this.#refused = new Backoff({ baseMs: 5_000, maxMs: 300_000, random });
  }

  /** Counts a failed login. @returns ms to wait */
  next(method: VaultIdentity['method'], error: VaultError): number {
    if (error.transient) return this.#unanswered.next(error.retryAfterMs);
    if (method !== 'approle' || error.kind !== 'authFailed') return this.#refused.next(error.retryAfterMs);
    const delay = this.#delays[Math.min(this.#refusals, this.#delays.length - 1)] ?? 0;
    this.#refusals++;
    // The jitter only adds: a shorter wait would allow a fifth refusal within the 15 minutes.
    return delay * (1 + 0.1 * this.#random());
  }

  reset(): void {
    this.#refusals = 0;
    this.#unanswered.reset();
    this.#refused.reset();
  }
}
