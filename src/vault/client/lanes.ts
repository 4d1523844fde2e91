/**
 * The calls of one identity, with a lane for each mount. So a server that is down, or a secrets engine that hangs (such
 * as a database), delays no other mount, and no other identity.
 *
 *   open ──two calls in a row without a usable answer──▶ paused ──the pause is over──▶ trying: one call at a time
 *   trying ──no usable answer──▶ paused, for longer        any state ──a usable answer to any call──▶ open
 *
 * All other calls are refused. An error message of Vault is a usable answer.
 */
import type { Clock } from '../../runtime/clock.ts';
import { ByteCache } from '../../runtime/maps.ts';
import { Backoff } from '../../runtime/queue/backoff.ts';

/** Most lanes of one identity. Users choose the names of mounts, so without this limit lanes could fill the memory. */
const MOST_MOUNTS = 100;
/** Failures in a row after which calls are refused. */
const FAILURES = 2;
/** The pauses, ms: they grow from the first to the longest. A mount that works again gets no call until the pause is over. */
const PAUSES = { baseMs: 1000, maxMs: 5000 };
/** While the call that tries is under way, others wait this long, ms. */
const TRYING_MS = 1000;

/** The calls of one identity to one mount. */
export class Lane {
  readonly #clock: Clock;
  readonly #pauses = new Backoff(PAUSES);
  /** Calls in a row without a usable answer. */
  #failures = 0;
  /** Monotonic, ms. */
  #pausedUntil = -Infinity;
  #running = 0;
  /** Why the last call failed. */
  #reason = '';

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Why a call must not be sent now, and when it may be tried again, ms; `undefined`: it may be sent. */
  get refusal(): { readonly reason: string; readonly retryAfterMs: number } | undefined {
    if (this.#failures < FAILURES) return undefined;
    const pauseMs = this.#pausedUntil - this.#clock.monotonic();
    const retryAfterMs = pauseMs > 0 ? pauseMs : this.#running > 0 ? TRYING_MS : 0;
    return retryAfterMs > 0 ? { reason: `not sent, after ${this.#reason}`, retryAfterMs } : undefined;
  }

  /** Counts a call as running while `work` runs. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    this.#running++;
    try {
      return await work();
    } finally {
      this.#running--;
    }
  }

  answered(): void {
    this.#failures = 0;
    this.#pauses.reset();
  }

  /** Records that a call got no usable answer. Of several calls that fail together, the first one begins the pause. */
  failed(reason: string): void {
    this.#failures++;
    this.#reason = reason;
    const now = this.#clock.monotonic();
    if (this.#failures >= FAILURES && now >= this.#pausedUntil) this.#pausedUntil = now + this.#pauses.next();
  }
}

/** Finds the lane of a mount. The least recently used lanes are forgotten. */
export function lanes(clock: Clock): (mount: string) => Lane {
  const known = new ByteCache<Lane>({ maxBytes: MOST_MOUNTS });
  return (mount) => {
    const lane = known.get(mount) ?? new Lane(clock);
    known.set(mount, lane, 1);
    return lane;
  };
}

/** Guesses the mount of a path: the first segment, or the first two segments below `auth/` and `sys/`. */
export function mountOfPath(path: string): string {
  const segments = path.split('/', 2);
  return segments[0] === 'auth' || segments[0] === 'sys' ? segments.join('/') : (segments[0] ?? '');
}
