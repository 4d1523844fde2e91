/**
 * Cache of match results of patterns and namespaces, with two bits for each pair (is the result known, does it match), because there
 * may be thousands of both.
 *
 * State: each namespace has a slot, and each pattern an array of bits by slot. Invariant: the bits of a free slot are 0, so it can be
 * reused. If all arrays exceed `maxBytes` together, all results are dropped.
 */
const SLOTS_IN_BYTE = 4;
type Bits = Uint8Array<ArrayBuffer>;

/** Overhead of an array besides its bits, bytes, measured. */
const ARRAY_BYTES = 200;

/** Ten times the namespaces of the largest clusters. */
const MAX_SLOTS = 100_000;

export class MatchCache {
  readonly #maxBytes: number;
  readonly #slots = new Map<string, number>();
  readonly #free: number[] = [];
  readonly #filled = new Set<MatchResults>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The results of a new pattern. */
  results(): MatchResults {
    return new MatchResults(this);
  }

  /** The namespace was deleted. */
  delete(namespace: string): void {
    const slot = this.#slots.get(namespace);
    if (slot === undefined) return;
    this.#slots.delete(namespace);
    this.#free.push(slot);
    for (const results of this.#filled) results.clear(slot);
  }

  slotOf(namespace: string): number {
    let slot = this.#slots.get(namespace);
    if (slot !== undefined) return slot;
    // Names that are not namespaces are never deleted, so their slots are never freed.
    if (this.#slots.size >= MAX_SLOTS) {
      this.#clearAll();
      this.#slots.clear();
      this.#free.length = 0;
    }
    this.#slots.set(namespace, (slot = this.#free.pop() ?? this.#slots.size));
    return slot;
  }

  /** A copy of `bits` with room for `slot`. */
  grow(results: MatchResults, bits: Bits, slot: number): Bits {
    let length = Math.max(16, bits.length);
    while (length * SLOTS_IN_BYTE <= slot) length *= 2;
    let old = bits;
    if (this.#bytes + length + ARRAY_BYTES > this.#maxBytes) {
      this.#clearAll();
      old = NO_BITS;
    }
    const grown = new Uint8Array(length);
    grown.set(old);
    this.#bytes += length - old.length + (old.length === 0 ? ARRAY_BYTES : 0);
    this.#filled.add(results);
    return grown;
  }

  #clearAll(): void {
    for (const results of this.#filled) results.clearAll();
    this.#filled.clear();
    this.#bytes = 0;
  }
}

const NO_BITS: Bits = new Uint8Array(0);

/** The match results of one pattern. */
export class MatchResults {
  readonly #cache: MatchCache;
  #bits = NO_BITS;

  constructor(cache: MatchCache) {
    this.#cache = cache;
  }

  /** The cached result, else that of `match`. */
  of(namespace: string, match: (namespace: string) => boolean): boolean {
    const slot = this.#cache.slotOf(namespace);
    const [at, shift] = [slot >> 2, (slot & 3) * 2];
    const known = ((this.#bits[at] ?? 0) >> shift) & 3;
    if (known !== 0) return known === 3;
    const isMatch = match(namespace);
    if (at >= this.#bits.length) this.#bits = this.#cache.grow(this, this.#bits, slot);
    this.#bits[at] = (this.#bits[at] ?? 0) | ((isMatch ? 3 : 1) << shift);
    return isMatch;
  }

  clear(slot: number): void {
    const at = slot >> 2;
    if (at < this.#bits.length) this.#bits[at] = (this.#bits[at] ?? 0) & ~(3 << ((slot & 3) * 2));
  }

  clearAll(): void {
    this.#bits = NO_BITS;
  }
}
