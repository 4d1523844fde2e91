/**
 * What patterns have said of namespaces: two bits each (was it asked, did it match), because thousands of patterns may be asked of thousands of
 * namespaces.
 *
 * State: each namespace that was asked about has a place, and each pattern an array of bits by place. Invariant: the bits of a place that no namespace has
 * are 0, so that it can be given to another one. It is only a memory: above `maxBytes` together all is forgotten.
 */
const SLOTS_IN_BYTE = 4;
type Bits = Uint8Array<ArrayBuffer>;

/** What an array costs beside its bits, bytes, as measured. */
const ARRAY_BYTES = 200;

/** Ten times as many namespaces as the largest clusters have. */
const MAX_SLOTS = 100_000;

export class VerdictMemory {
  readonly #maxBytes: number;
  readonly #slots = new Map<string, number>();
  readonly #free: number[] = [];
  readonly #remembering = new Set<Verdicts>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** For one pattern. */
  verdicts(): Verdicts {
    return new Verdicts(this);
  }

  /** The namespace is gone: nobody will ask for it soon. */
  forget(namespace: string): void {
    const slot = this.#slots.get(namespace);
    if (slot === undefined) return;
    this.#slots.delete(namespace);
    this.#free.push(slot);
    for (const verdicts of this.#remembering) verdicts.clear(slot);
  }

  slotOf(namespace: string): number {
    let slot = this.#slots.get(namespace);
    if (slot !== undefined) return slot;
    // Some were asked about that were no namespaces, or no more: nobody ever says that they are gone.
    if (this.#slots.size >= MAX_SLOTS) {
      this.#forgetAll();
      this.#slots.clear();
      this.#free.length = 0;
    }
    this.#slots.set(namespace, (slot = this.#free.pop() ?? this.#slots.size));
    return slot;
  }

  /** Room for `slot`, with what `bits` holds. */
  grow(verdicts: Verdicts, bits: Bits, slot: number): Bits {
    let length = Math.max(16, bits.length);
    while (length * SLOTS_IN_BYTE <= slot) length *= 2;
    let old = bits;
    if (this.#bytes + length + ARRAY_BYTES > this.#maxBytes) {
      this.#forgetAll();
      old = NO_BITS;
    }
    const grown = new Uint8Array(length);
    grown.set(old);
    this.#bytes += length - old.length + (old.length === 0 ? ARRAY_BYTES : 0);
    this.#remembering.add(verdicts);
    return grown;
  }

  #forgetAll(): void {
    for (const verdicts of this.#remembering) verdicts.forgetAll();
    this.#remembering.clear();
    this.#bytes = 0;
  }
}

const NO_BITS: Bits = new Uint8Array(0);

/** Of one pattern. */
export class Verdicts {
  readonly #memory: VerdictMemory;
  #bits = NO_BITS;

  constructor(memory: VerdictMemory) {
    this.#memory = memory;
  }

  /** What it said of the namespace, or what it says now. */
  of(namespace: string, ask: (namespace: string) => boolean): boolean {
    const slot = this.#memory.slotOf(namespace);
    const [at, shift] = [slot >> 2, (slot & 3) * 2];
    const known = ((this.#bits[at] ?? 0) >> shift) & 3;
    if (known !== 0) return known === 3;
    const verdict = ask(namespace);
    if (at >= this.#bits.length) this.#bits = this.#memory.grow(this, this.#bits, slot);
    this.#bits[at] = (this.#bits[at] ?? 0) | ((verdict ? 3 : 1) << shift);
    return verdict;
  }

  clear(slot: number): void {
    const at = slot >> 2;
    if (at < this.#bits.length) this.#bits[at] = (this.#bits[at] ?? 0) & ~(3 << ((slot & 3) * 2));
  }

  forgetAll(): void {
    this.#bits = NO_BITS;
  }
}
