/**
 * Runs work once for all callers that request the same key at the same time. Such a run is a flight.
 *
 * A flight lasts from the first call until its work settles or its last caller aborts. A caller that aborts does not
 * affect the others. When the last caller aborts, the work's signal is aborted, and the next call starts a new flight.
 */
import { orAborted, throwIfAborted } from '../abort.ts';

interface Flight<T> {
  readonly promise: Promise<T>;
  readonly controller: AbortController;
  callers: number;
}

export class SingleFlight<T> {
  readonly #flights = new Map<string, Flight<T>>();

  /**
   * Waits for the flight of `key`. If there is none, starts a flight with `work`.
   * @param signal ends only the wait of this caller
   * @throws the error of the work, or AbortedError
   */
  async run(key: string, work: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const what = `waiting for ${key}`;
    throwIfAborted(signal, what);
    const flight = this.#flights.get(key) ?? this.#start(key, work);
    flight.callers++;
    try {
      return await orAborted(flight.promise, signal, what);
    } finally {
      flight.callers--;
      if (flight.callers === 0 && this.#flights.get(key) === flight) {
        this.#flights.delete(key);
        flight.controller.abort(new Error(`no caller waits for ${key}`));
      }
    }
  }

  #start(key: string, work: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const controller = new AbortController();
    const landed = (): void => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    };
    // `work` is called inside a promise, so that the promise rejects even if `work` throws synchronously.
    const promise = Promise.resolve(controller.signal).then(work);
    const flight: Flight<T> = { promise, controller, callers: 0 };
    this.#flights.set(key, flight);
    promise.then(landed, landed);
    return flight;
  }
}
