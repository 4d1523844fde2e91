/**
 * Limits the calls of one identity to one server, by mount. Each mount has a gate: a circuit breaker and slots of its own. So a secrets
 * engine that hangs (a database that does not answer) does not affect other mounts and other identities.
 *
 * A call needs a slot of its gate (at most `MOST_CALLS` calls at a time) and a slot of its server.
 *
 * A gate is *unproven* until a call gets a response, and again after a call without one. A call of an unproven gate also needs the only
 * trial slot of the gate, and one of the server's slots for unproven gates: half of all. So unproven gates never take the slots of others.
 */
import { Circuit, type CircuitOptions } from './circuit.ts';
import { Slots } from './slots.ts';

/** Calls of one identity to one mount at a time. */
const MOST_CALLS = 16;
/** Mounts kept for one identity. Users name them, and a session may live as long as the process. */
const MOST_MOUNTS = 100;

/** Circuit breaker and slots of one identity at one mount. */
export class MountGate {
  readonly circuit: Circuit;
  readonly #server: ServerSlots;
  readonly #own = new Slots(MOST_CALLS);
  readonly #trial = new Slots(1);
  /** The last call was answered. */
  #isProven = false;

  constructor(server: ServerSlots, options: CircuitOptions) {
    this.#server = server;
    this.circuit = new Circuit(options);
  }

  recordCall(wasAnswered: boolean): void {
    this.#isProven = wasAnswered;
  }

  /** Waits for the slots of a call. @returns the slots; disposing frees them @throws AbortedError */
  async enter(signal: AbortSignal): Promise<Disposable> {
    const held = new DisposableStack();
    try {
      if (!this.#isProven) {
        const trial = await this.#trial.take(signal);
        // The call before may have proven the gate meanwhile.
        if (this.#isProven) trial[Symbol.dispose]();
        else {
          held.use(trial);
          held.use(await this.#server.unproven.take(signal));
        }
      }
      held.use(await this.#own.take(signal));
      held.use(await this.#server.all.take(signal));
      return held;
    } catch (error) {
      held.dispose();
      throw error;
    }
  }
}

/** The slots that all identities of one server share. */
export interface ServerSlots {
  readonly all: Slots;
  readonly unproven: Slots;
}

/** @throws RangeError for a limit that is no positive integer */
export function serverSlots(limit: number): ServerSlots {
  return { all: new Slots(limit), unproven: new Slots(Math.ceil(limit / 2)) };
}

/**
 * All gates of one identity, least recently used first. Above `MOST_MOUNTS` the first is dropped: if its mount is used again, it
 * starts unproven, with a closed circuit.
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

/** The mount of a path by its shape: the first segment, or two below `auth/` and `sys/`. */
export function mountOfPath(path: string): string {
  const segments = path.split('/', 2);
  return segments[0] === 'auth' || segments[0] === 'sys' ? segments.join('/') : (segments[0] ?? '');
}
