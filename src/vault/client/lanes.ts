/**
 * Limits the calls to one server. All its calls share slots, and each identity has a lane for each mount. So a secrets
 * engine that hangs, such as a database, delays no other mount and no other identity. `Health` decides whether the
 * server answers at all.
 * - A call needs a slot of its lane (at most `MOST_CALLS` calls at a time) and a slot of its server.
 * - A lane is *unproven* until a call gets a response, and again after a call without a response. It then has one call
 *   at a time, which also takes one of the server's slots for unproven lanes. These are half of all slots, so the
 *   other half stays free for lanes that get responses.
 * - After `FAILURES` calls in a row without a response, further calls do not wait for the one call: they are refused.
 *
 * An error message of Vault is a response, too. A failure is a call without a usable answer, for example no answer in
 * time or the status 502.
 */
import { AbortedError, throwIfAborted } from '../../runtime/abort.ts';

/** Largest number of calls of one identity to one mount at a time. */
const MOST_CALLS = 16;
/** Most lanes of one identity. Users choose the names of mounts, so without this limit lanes could fill the memory. */
const MOST_MOUNTS = 100;
/** Failures in a row after which calls no longer wait for the call that tries. */
const FAILURES = 2;

/** The calls of one identity to one mount. */
export class Lane {
  readonly #server: SharedSlots;
  readonly #own = new Semaphore(MOST_CALLS);
  readonly #trial = new Semaphore(1);
  /** Whether the last call got a response. */
  #isProven = false;
  /** Failures since the last response. */
  #failures = 0;

  constructor(server: SharedSlots) {
    this.#server = server;
  }

  answered(): void {
    this.#isProven = true;
    this.#failures = 0;
  }

  failed(): void {
    this.#isProven = false;
    this.#failures++;
  }

  /**
   * Waits for the slots of a call.
   * @returns the slots; disposing frees them. `undefined`: the call is refused
   * @throws AbortedError
   */
  async enter(signal: AbortSignal): Promise<Disposable | undefined> {
    using taken = new DisposableStack();
    if (!this.#isProven) {
      if (this.#failures >= FAILURES && this.#trial.taken > 0) return undefined;
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

/** Slots that several lanes or servers share. All lanes or servers that are not proven together get at most half. */
export class SharedSlots {
  readonly all: Semaphore;
  readonly unproven: Semaphore;

  constructor(limit: number) {
    this.all = new Semaphore(limit);
    this.unproven = new Semaphore(Math.ceil(limit / 2));
  }

  /** As `Semaphore.take`. @param isProven `false`: also takes one of the slots for users that are not proven */
  async take(signal: AbortSignal, isProven: boolean, rank = 0): Promise<Disposable> {
    using taken = new DisposableStack();
    if (!isProven) taken.use(await this.unproven.take(signal, rank));
    taken.use(await this.all.take(signal, rank));
    return taken.move();
  }
}

/**
 * The lanes of one identity. If there are more than `MOST_MOUNTS`, the least recently used lane is dropped. A later
 * call to its mount gets a new lane, which is unproven.
 */
export class Lanes {
  readonly #server: SharedSlots;
  readonly #byMount = new Map<string, Lane>();

  constructor(server: SharedSlots) {
    this.#server = server;
  }

  of(mount: string): Lane {
    const lane = this.#byMount.get(mount) ?? new Lane(this.#server);
    this.#byMount.delete(mount);
    this.#byMount.set(mount, lane);
    const [oldest] = this.#byMount.keys();
    if (this.#byMount.size > MOST_MOUNTS && oldest !== undefined) this.#byMount.delete(oldest);
    return lane;
  }
}

/** Guesses the mount of a path: the first segment, or the first two segments below `auth/` and `sys/`. */
export function mountOfPath(path: string): string {
  const segments = path.split('/', 2);
  return segments[0] === 'auth' || segments[0] === 'sys' ? segments.join('/') : (segments[0] ?? '');
}

/** Limits the number of concurrent calls. Other calls wait: the lowest rank goes first; of equal ranks, the oldest. */
export class Semaphore {
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
