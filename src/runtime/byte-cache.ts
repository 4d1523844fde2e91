/**
 * A cache that holds at most so many bytes and drops what was used longest ago.
 *
 * Invariants: `#bytes` is the sum of all sizes and never above the limit after a call; the order of `#entries` is the
 * order of last use. A value larger than the whole limit is not kept at all.
 */
import { FifoMap } from './queue/fifo-map.ts';

/** Why an entry left: pushed out by others, replaced by a new value, or taken out on request. */
export type Departure = 'evicted' | 'replaced' | 'deleted';

export interface ByteCacheOptions<V> {
  readonly maxBytes: number;
  /** Called for every entry that leaves, after it has left. Must not throw. */
  readonly onLeave?: (key: string, value: V, why: Departure) => void;
}

interface Entry<V> {
  readonly value: V;
  readonly bytes: number;
}

export class ByteCache<V> {
  readonly #options: ByteCacheOptions<V>;
  readonly #entries = new FifoMap<Entry<V>>();
  #bytes = 0;

  /** @throws RangeError if `maxBytes` is negative or not a number */
  constructor(options: ByteCacheOptions<V>) {
    if (!(options.maxBytes >= 0)) throw new RangeError(`maxBytes must be 0 or more, got ${options.maxBytes}`);
    this.#options = options;
  }

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The value, which counts as a use of it. */
  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /**
   * @param bytes what the value is taken to weigh; 0 or more
   * @returns false if the value is too large to be kept (an old value of the key is gone all the same)
   * @throws RangeError for a negative or infinite size
   */
  set(key: string, value: V, bytes: number): boolean {
    if (!(bytes >= 0 && bytes < Infinity)) throw new RangeError(`bytes must be 0 or more, got ${bytes}`);
    const { maxBytes } = this.#options;
    this.#remove(key, 'replaced');
    if (bytes > maxBytes) return false;
    while (this.#bytes + bytes > maxBytes) {
      const oldest = this.#entries.shift();
      if (oldest === undefined) break;
      this.#left(oldest[0], oldest[1], 'evicted');
    }
    this.#entries.set(key, { value, bytes });
    this.#bytes += bytes;
    return true;
  }

  delete(key: string): boolean {
    return this.#remove(key, 'deleted');
  }

  clear(): void {
    for (let oldest = this.#entries.shift(); oldest !== undefined; oldest = this.#entries.shift())
      this.#left(oldest[0], oldest[1], 'deleted');
  }

  #remove(key: string, why: Departure): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    this.#entries.delete(key);
    this.#left(key, entry, why);
    return true;
  }

  #left(key: string, entry: Entry<V>, why: Departure): void {
    this.#bytes -= entry.bytes;
    this.#options.onLeave?.(key, entry.value, why);
  }
}
