/**
 * Limits the calls of one identity to one server, by mount. Each mount has a gate. So a secrets engine that hangs, such
 * as a database, delays no other mount and no other identity. `Liveness` decides whether the server answers at all.
 * - A call needs a slot of its gate (at most `MOST_CALLS` calls at a time) and a slot of its server.
 * - A gate is *unproven* until a call gets a response, and again after a call without a response. A call of an unproven
 *   gate also needs the gate's one trial slot, and one of the server's slots for unproven gates. These are half of all
 *   slots, so the other half stays free for gates that get responses.
 * - After `FAILURES` calls in a row without a response the gate refuses calls for a while, longer each time. Any
 *   response ends the refusal.
 * - After a Retry-After the gate refuses calls for that time.
 *
 * An error message of Vault is a response, too. A failure is a call without a usable answer, for example no answer in
 * time or the status 502.
 */
import { Backoff } from '../../runtime/queue/backoff.ts';
import type { Clock } from '../../runtime/clock.ts';
import { AbortedError, throwIfAborted } from '../../runtime/abort.ts';

/** Largest number of calls of one identity to one mount at a time. */
const MOST_CALLS = 16;
/** Most gates of one identity. Users choose the names of mounts, so without this limit gates could fill the memory. */
const MOST_MOUNTS = 100;
/** Failures in a row after which a gate refuses calls. */
const FAILURES = 2;
/** How long a gate refuses calls, ms: the first time at most `baseMs`, later at most `maxMs`. */
const REFUSAL = { baseMs: 1_000, maxMs: 30_000 };
/** Longest pause after a Retry-After, ms. */
const LONGEST_PAUSE_MS = 60_000;

/** Why a call is not sent. */
export interface Refusal {
  /** `failed`: the last calls had no answer. `paused`: the server requested fewer calls by a Retry-After. */
  readonly because: 'failed' | 'paused';
  readonly retryAfterMs: number;
}

export interface GateOptions {
  readonly clock: Clock;
  /** Returns r, 0 ≤ r < 1, to spread waits at random. Default `Math.random`. */
  readonly random?: (() => number) | undefined;
}

/** Decides when one identity may send a call to one mount. */
export class MountGate {
  readonly #server: SharedSlots;
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  readonly #own = new Slots(MOST_CALLS);
  readonly #trial = new Slots(1);
  /** Whether the last call got a response. */
  #isProven = false;
  /** Failures since the last response or refusal. */
  #failures = 0;
  /** Start and end of the last refusal, and end of the last pause: monotonic ms. */
  #refusedAt = -Infinity;
  #refusedUntil = 0;
  #pausedUntil = 0;

  constructor(server: SharedSlots, { clock, random }: GateOptions) {
    this.#server = server;
    this.#clock = clock;
    this.#backoff = new Backoff({ ...REFUSAL, random });
  }

  /** Called for a call that has its slots. @returns why it must not be sent; `undefined`: it may be sent */
  refusal(): Refusal | undefined {
    const now = this.#clock.monotonic();
    if (now < this.#pausedUntil) return { because: 'paused', retryAfterMs: this.#pausedUntil - now };
    return now < this.#refusedUntil ? { because: 'failed', retryAfterMs: this.#refusedUntil - now } : undefined;
  }

  /** Refuses all calls for the time of a Retry-After. */
  pause(ms: number): void {
    const until = this.#clock.monotonic() + Math.min(ms, LONGEST_PAUSE_MS);
    this.#pausedUntil = Math.max(this.#pausedUntil, until);
  }

  answered(): void {
    this.#isProven = true;
    this.#failures = 0;
    this.#refusedUntil = 0;
    this.#backoff.reset();
  }

  /** Counts a failure. @param sentAt monotonic ms: a call from before the last refusal does not prolong the refusal */
  failed(sentAt: number): void {
    this.#isProven = false;
    if (sentAt <= this.#refusedAt) return;
    // The first call after a refusal is a trial: if it fails, the next refusal begins at once.
    if (++this.#failures < FAILURES && this.#refusedUntil === 0) return;
    this.#failures = 0;
    this.#refusedAt = this.#clock.monotonic();
    this.#refusedUntil = this.#refusedAt + this.#backoff.next();
  }

  /** Waits for the slots of a call. @returns the slots; disposing frees them @throws AbortedError */
  async enter(signal: AbortSignal): Promise<Disposable> {
    using taken = new DisposableStack();
    if (!this.#isProven) {
      const trial = await this.#trial.take(signal);
      // While this call waited, another call may have got a response. Then this call needs no trial slot.
      if (this.#isProven) trial[Symbol.dispose]();
      else taken.use(trial);
    }
    taken.use(await this.#own.take(signal));
    taken.use(await this.#server.take(signal, this.#isProven));
    return taken.move();
  }
}

/** Slots that several gates or servers share. All gates or servers that are not proven together get at most half. */
export class SharedSlots {
  readonly all: Slots;
  readonly unproven: Slots;

  constructor(limit: number) {
    this.all = new Slots(limit);
    this.unproven = new Slots(Math.ceil(limit / 2));
  }

  /** As `Slots.take`. @param isProven `false`: also takes one of the slots for users that are not proven */
  async take(signal: AbortSignal, isProven: boolean, rank = 0): Promise<Disposable> {
    using taken = new DisposableStack();
    if (!isProven) taken.use(await this.unproven.take(signal, rank));
    taken.use(await this.all.take(signal, rank));
    return taken.move();
  }
}

/**
 * The gates of one identity. If there are more than `MOST_MOUNTS`, the least recently used gate is dropped. A later
 * call to its mount gets a new gate, which is unproven and refuses nothing.
 */
export class MountGates {
  readonly #make: () => MountGate;
  readonly #byMount = new Map<string, MountGate>();

  constructor(make: () => MountGate) {
    this.#make = make;
  }

  of(mount: string): MountGate {
    const gate = this.#byMount.get(mount) ?? this.#make();
    this.#byMount.delete(mount);
    this.#byMount.set(mount, gate);
    const [oldest] = this.#byMount.keys();
    if (this.#byMount.size > MOST_MOUNTS && oldest !== undefined) this.#byMount.delete(oldest);
    return gate;
  }
}

/** Guesses the mount of a path: the first segment, or the first two segments below `auth/` and `sys/`. */
export function mountOfPath(path: string): string {
  const segments = path.split('/', 2);
  return segments[0] === 'auth' || segments[0] === 'sys' ? segments.join('/') : (segments[0] ?? '');
}

/** Limits the number of concurrent calls. Other calls wait: the lowest rank goes first; of equal ranks, the oldest. */
export class Slots {
  readonly #limit: number;
  /** For each waiting call, the function that admits the call, and the rank of the call. */
  readonly #waiting = new Map<() => void, number>();
  #taken = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get taken(): number {
    return this.#taken;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Waits for a slot.
   * @param rank 0 or more; a lower one goes first
   * @returns the slot; disposing frees it
   * @throws AbortedError when the signal is aborted first
   */
  async take(signal: AbortSignal, rank = 0): Promise<Disposable> {
    throwIfAborted(signal, 'waiting for a free slot');
    if (this.#taken < this.#limit) this.#taken++;
    else await this.#wait(signal, rank);
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (held) this.#giveBack();
        held = false;
      },
    };
  }

  #wait(signal: AbortSignal, rank: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(admit);
        reject(new AbortedError('waiting for a free slot', signal.reason));
      };
      const admit = (): void => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      this.#waiting.set(admit, rank);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** Gives the slot directly to the next call, so that no other call can overtake that call. */
  #giveBack(): void {
    const next = this.#next();
    if (next === undefined) {
      this.#taken--;
      return;
    }
    this.#waiting.delete(next);
    next();
  }

  #next(): (() => void) | undefined {
    let next: (() => void) | undefined;
    let lowest = Infinity;
    for (const [admit, rank] of this.#waiting) {
      if (rank === 0) return admit;
      if (rank < lowest) [next, lowest] = [admit, rank];
    }
    return next;
  }
}
