/**
 * A cache bounded by bytes. It evicts the least recently used entries.
 *
 * Invariants: `#bytes` is the sum of all sizes and never above the limit after a call; the order of `#entries` is the
 * order of last use. A value larger than the limit is not kept.
 */
import { FifoMap } from './maps.ts';

interface Entry<V> {
  readonly value: V;
  readonly bytes: number;
}

export class ByteCache<V> {
  readonly #maxBytes: number;
  readonly #entries = new FifoMap<Entry<V>>();
  #bytes = 0;

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The value; this counts as a use. */
  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /**
   * @param bytes size of the value
   * @returns false if the value is too large to be kept (the old value of the key is removed all the same)
   */
  set(key: string, value: V, bytes: number): boolean {
    this.delete(key);
    if (bytes > this.#maxBytes) return false;
    while (this.#bytes + bytes > this.#maxBytes) {
      const oldest = this.#entries.shift();
      if (oldest === undefined) break;
      this.#bytes -= oldest[1].bytes;
    }
    this.#entries.set(key, { value, bytes });
    this.#bytes += bytes;
    return true;
  }

  delete(key: string): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
    return true;
  }

  clear(): void {
    this.#entries.clear();
    this.#bytes = 0;
  }
}
