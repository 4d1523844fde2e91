/**
 * One piece of work for all who ask for the same thing at the same time.
 *
 * A flight lives from the first caller until its work settles or its last caller gives up, whichever is first. A caller
 * that gives up leaves the others alone; when nobody is left the work's signal is aborted, and whoever asks next starts
 * a new flight rather than joining one that is going down.
 */
import { AbortedError, throwIfAborted } from './abort.ts';

interface Flight<T> {
  readonly promise: Promise<T>;
  readonly controller: AbortController;
  callers: number;
}

export class SingleFlight<T> {
  readonly #flights = new Map<string, Flight<T>>();

  /** How many different things are being worked on. */
  get size(): number {
    return this.#flights.size;
  }

  /**
   * The outcome of the work under way for `key`, or of `work`, started now.
   * @param signal gives up this caller's wait only
   * @throws what the work throws, or AbortedError
   */
  async run(key: string, work: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    throwIfAborted(signal, `waiting for ${key}`);
    const flight = this.#flights.get(key) ?? this.#start(key, work);
    flight.callers++;
    const gone = Promise.withResolvers<never>();
    const onAbort = (): void => {
      gone.reject(new AbortedError(`waiting for ${key}`, signal?.reason));
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([flight.promise, gone.promise]);
    } finally {
      signal?.removeEventListener('abort', onAbort);
      flight.callers--;
      if (flight.callers === 0 && this.#flights.get(key) === flight) {
        this.#flights.delete(key);
        flight.controller.abort(new Error(`nobody waits for ${key} any more`));
      }
    }
  }

  #start(key: string, work: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const controller = new AbortController();
    const landed = (): void => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    };
    // Begun in a promise so that work that throws at once rejects like any other.
    const promise = Promise.resolve(controller.signal).then(work);
    const flight: Flight<T> = { promise, controller, callers: 0 };
    this.#flights.set(key, flight);
    promise.then(landed, landed);
    return flight;
  }
}
