/**
 * The calls of one identity to one server, by mount: each mount is a party with a circuit and slots of its own, so that a secrets
 * engine which hangs (a database that does not answer) takes nothing from other mounts and other identities.
 *
 * Slots of one server, from the outside in:
 *
 * - A party has at most `PARTY_CALLS` calls at a time.
 * - A party whose last call had no answer, or that has had none yet, is *unproven*: it has one call at a time, and all such parties
 *   together have at most half of the server's slots. So hanging parties never take the slots of those that are answered.
 * - The server has so many calls at a time.
 */
import { Circuit, type CircuitOptions } from './circuit.ts';
import { Slots } from './slots.ts';

/** Calls of one identity to one mount at a time. */
const PARTY_CALLS = 16;
/** Mounts of one identity that are remembered. Users name them, and a session may live for as long as the process. */
const MOST_MOUNTS = 100;

/** Of one identity at one mount. */
export class Party {
  readonly circuit: Circuit;
  readonly #server: ServerSlots;
  readonly #own = new Slots(PARTY_CALLS);
  readonly #trial = new Slots(1);
  /** The last call was answered. */
  #proven = false;

  constructor(server: ServerSlots, options: CircuitOptions) {
    this.#server = server;
    this.circuit = new Circuit(options);
  }

  /** A call was answered, or had no answer in time. */
  prove(answered: boolean): void {
    this.#proven = answered;
  }

  /** Waits for all that a call needs. @returns what gives it back @throws AbortedError */
  async enter(signal: AbortSignal): Promise<Disposable> {
    const held = new DisposableStack();
    try {
      if (!this.#proven) {
        const trial = await this.#trial.take(signal);
        // The one before may have proven it while we waited.
        if (this.#proven) trial[Symbol.dispose]();
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

/** What all identities of one server share. */
export interface ServerSlots {
  readonly all: Slots;
  readonly unproven: Slots;
}

/** @throws RangeError for a limit that is no positive integer */
export function serverSlots(limit: number): ServerSlots {
  return { all: new Slots(limit), unproven: new Slots(Math.ceil(limit / 2)) };
}

/**
 * All parties of one identity, each mount's last use after that of the one before it. The one that was used longest ago is forgotten where
 * they are too many: a mount that is named again begins as an unproven one, with a closed circuit.
 */
export class Parties {
  readonly #make: () => Party;
  readonly #byMount = new Map<string, Party>();

  constructor(make: () => Party) {
    this.#make = make;
  }

  of(mount: string): Party {
    const party = this.#byMount.get(mount) ?? this.#make();
    this.#byMount.delete(mount);
    this.#byMount.set(mount, party);
    const [oldest] = this.#byMount.keys();
    if (this.#byMount.size > MOST_MOUNTS && oldest !== undefined) this.#byMount.delete(oldest);
    return party;
  }
}

/** The mount of a path as far as its shape tells: the first segment, and below `auth/` and `sys/` two of them. */
export function mountOfPath(path: string): string {
  const segments = path.split('/', 2);
  return segments[0] === 'auth' || segments[0] === 'sys' ? segments.join('/') : (segments[0] ?? '');
}
