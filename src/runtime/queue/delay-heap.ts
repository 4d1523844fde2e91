/**
 * Keys with a due time, earliest first: a binary heap in which each entry stores its index, so that a key is moved or
 * removed without a search.
 *
 * Invariants: a key is in the heap at most once; `#heap[e.place] === e` for every entry; a parent is never due after
 * its children; keys with the same time come out in the order in which they were put in.
 */

interface DelayedKey<K> {
  readonly key: K;
  /** Whether the key gets low priority when it is due. After a `put` with normal priority it gets normal priority. */
  low: boolean;
  at: number;
  order: number;
  place: number;
}

export class DelayHeap<K extends string = string> {
  readonly #heap: DelayedKey<K>[] = [];
  readonly #entries = new Map<K, DelayedKey<K>>();
  #order = 0;

  get size(): number {
    return this.#heap.length;
  }

  /** When the first key is due; `undefined`: the heap is empty. */
  get nextAt(): number | undefined {
    return this.#heap[0]?.at;
  }

  /** Adds the key. If the heap has the key already, the earlier of the two times counts. */
  put(key: K, at: number, low = false): void {
    const known = this.#entries.get(key);
    if (known !== undefined && !low) known.low = false;
    if (known === undefined) {
      const entry = { key, low, at, order: this.#order++, place: this.#heap.length };
      this.#entries.set(key, entry);
      this.#heap.push(entry);
      this.#up(entry);
    } else if (at < known.at) {
      known.at = at;
      known.order = this.#order++;
      this.#up(known);
    }
  }

  delete(key: K): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    this.#entries.delete(key);
    const last = this.#heap.pop();
    if (last !== undefined && last !== entry) {
      this.#place(last, entry.place);
      this.#up(last);
      this.#down(last);
    }
    return true;
  }

  /** Removes and returns the first key that is due at `now`; `undefined`: no key is due. */
  shift(now: number): { readonly key: K; readonly low: boolean } | undefined {
    const first = this.#heap[0];
    if (first === undefined || first.at > now) return undefined;
    this.delete(first.key);
    return first;
  }

  clear(): void {
    this.#heap.length = 0;
    this.#entries.clear();
  }

  #up(entry: DelayedKey<K>): void {
    for (;;) {
      const parent = entry.place === 0 ? undefined : this.#heap[(entry.place - 1) >> 1];
      if (parent === undefined || !before(entry, parent)) return;
      this.#swap(entry, parent);
    }
  }

  #down(entry: DelayedKey<K>): void {
    for (;;) {
      const left = this.#heap[2 * entry.place + 1];
      const right = this.#heap[2 * entry.place + 2];
      const child = left !== undefined && right !== undefined && before(right, left) ? right : left;
      if (child === undefined || !before(child, entry)) return;
      this.#swap(entry, child);
    }
  }

  #swap(a: DelayedKey<K>, b: DelayedKey<K>): void {
    const place = a.place;
    this.#place(a, b.place);
    this.#place(b, place);
  }

  #place(entry: DelayedKey<K>, place: number): void {
    entry.place = place;
    this.#heap[place] = entry;
  }
}

function before(a: DelayedKey<string>, b: DelayedKey<string>): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
