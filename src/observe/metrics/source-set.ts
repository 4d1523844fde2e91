/** Functions that return their current state when it is needed: at a scrape or a status request. */
export class SourceSet<T> {
  readonly #sources = new Set<() => Iterable<T>>();

  /** Adds a source; the answer takes it out again. */
  add(read: () => Iterable<T>): () => void {
    this.#sources.add(read);
    return () => void this.#sources.delete(read);
  }

  /** The items of all sources now. @throws what a source throws. */
  read(): T[] {
    const all: T[] = [];
    for (const source of this.#sources) for (const item of source()) all.push(item);
    return all;
  }
}
